// The models and data that the trainer offers, by name: what goes together, and which settings
// suit it. models.h and data.h make the things themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace launch {

enum class Task {
  kRegression,      // inputs [batch, 5] -> targets [batch, 2], mean squared error
  kClassification,  // images [batch, 784] -> classes [batch], cross-entropy
};

// Settings that hold unless flags say otherwise.
struct ModelInfo {
  std::string name;
  std::string description;
  Task task = Task::kClassification;
  std::string data;
  int64_t batch_size = 64;
  int64_t epochs = 1;
  double learning_rate = 0.01;
  double momentum = 0;
};

const std::vector<ModelInfo>& Models();

// Throws std::invalid_argument that lists the known ones.
const ModelInfo& FindModel(const std::string& name);

// "--data=..." taken apart: "mnist:DIR" is {"mnist", "DIR"}.
struct DataSource {
  std::string name;
  std::string directory;

  std::string ToString() const { return directory.empty() ? name : name + ":" + directory; }
};

// Throws std::invalid_argument for an unknown source, or a directory missing or out of place.
DataSource ParseDataSource(const std::string& text);

// Throws std::invalid_argument, with what would go together, when the model can't use the data.
void CheckGoTogether(const ModelInfo& model, const DataSource& data);

}  // namespace launch
