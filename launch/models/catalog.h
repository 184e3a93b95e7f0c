// The models and data that the trainer offers, by name: what goes together, and which settings
// suit it. models.h and data.h make the things themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/models/model_options.h"

namespace launch {

enum class Task {
  kRegression,      // inputs [batch, 5] -> targets [batch, 2], mean squared error
  kClassification,  // images [batch, channels, height, width] -> classes [batch], cross-entropy
  kLanguage,        // tokens [batch, context] -> the tokens after them, cross-entropy
};

// Settings that hold unless flags say otherwise.
struct ModelInfo {
  std::string name;
  std::string description;
  Task task = Task::kClassification;
  bool has_batch_norm = false;
  std::string data;
  int64_t batch_size = 64;
  int64_t epochs = 1;
  std::string optimizer = "sgd";
  double learning_rate = 0.01;  // of that optimizer
  double momentum = 0;
  std::string schedule = "constant";
  int64_t warmup_steps = 0;
  double clip_norm = 0;  // 0: gradients aren't clipped
};

const std::vector<ModelInfo>& Models();

// Throws std::invalid_argument that lists the known ones.
const ModelInfo& FindModel(const std::string& name);

// "--data=..." taken apart: "mnist:DIR" is {"mnist", "DIR"}.
struct DataSource {
  std::string name;
  std::string path;  // a directory, a file or a pattern of files

  std::string ToString() const { return path.empty() ? name : name + ":" + path; }
};

// Throws std::invalid_argument for an unknown source, or a path missing or out of place.
DataSource ParseDataSource(const std::string& text);

// Throws std::invalid_argument, with what would go together, when the model can't use the data.
void CheckGoTogether(const ModelInfo& model, const DataSource& data);

// The extents of the images of classification data.
ImageOptions ImagesOf(const DataSource& data);
// How many tokens language data has where nothing else is said.
int64_t VocabularyOf(const DataSource& data);

}  // namespace launch
