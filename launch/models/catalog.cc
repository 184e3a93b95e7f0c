#include "launch/models/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "launch/text/text.h"

namespace launch {
namespace {

struct DataInfo {
  std::string name;
  std::string path = {};  // what its path is: "DIR", "FILE", "GLOB"; "" where it has none
  std::vector<Task> tasks;
  ImageOptions images = {};
  int64_t vocabulary = 0;

  std::string Form() const { return path.empty() ? name : name + ":" + path; }
  bool Serves(Task task) const { return std::count(tasks.begin(), tasks.end(), task) > 0; }
};

const std::vector<DataInfo>& DataSources() {
  static const std::vector<DataInfo> sources = {
      {.name = "cifar10",
       .path = "DIR",
       .tasks = {Task::kClassification},
       .images = {.channels = 3, .height = 32, .width = 32}},
      {.name = "digits", .tasks = {Task::kClassification}},
      {.name = "mnist", .path = "DIR", .tasks = {Task::kClassification}},
      {.name = "synthetic",
       .tasks = {Task::kRegression, Task::kClassification, Task::kLanguage},
       .vocabulary = 512},
      {.name = "text", .path = "FILE", .tasks = {Task::kLanguage}, .vocabulary = 256},
      {.name = "tokens", .path = "GLOB", .tasks = {Task::kLanguage}, .vocabulary = 50257},
  };
  return sources;
}

const DataInfo& FindDataSource(const std::string& name) {
  std::vector<std::string> known;
  for (const DataInfo& source : DataSources()) {
    if (source.name == name) return source;
    known.push_back(source.Form());
  }
  throw std::invalid_argument(UnknownName("data", name, known));
}

}  // namespace

const std::vector<ModelInfo>& Models() {
  static const std::vector<ModelInfo> models = {
      {.name = "linear",
       .description = "Linear(5, 2), the tutorial's",
       .task = Task::kRegression,
       .data = "synthetic",
       .batch_size = 10,
       .epochs = 10,
       .learning_rate = 0.01},
      {.name = "mlp",
       .description = "784-1024-1024-10 with ReLU; --hidden changes the middle",
       .task = Task::kClassification,
       .data = "digits",
       .batch_size = 64,
       .epochs = 2,
       .learning_rate = 0.05,
       .momentum = 0.9},
      {.name = "convnet",
       .description = "two 3x3 convolutions with ReLU and pooling, two linear layers",
       .task = Task::kClassification,
       .data = "digits",
       .batch_size = 64,
       .epochs = 2,
       .learning_rate = 0.05,
       .momentum = 0.9,
       .schedule = "one-cycle"},
      {.name = "resnet",
       .description = "three residual blocks of 16 and 32 channels, with batch norm",
       .task = Task::kClassification,
       .has_batch_norm = true,
       .data = "digits",
       .batch_size = 64,
       .epochs = 2,
       .learning_rate = 0.05,
       .momentum = 0.9,
       .schedule = "one-cycle"},
      {.name = "gpt",
       .description = "GPT-2; --layers, --width, --heads, --context and --vocab say how large",
       .task = Task::kLanguage,
       .data = "synthetic",
       .batch_size = 4,
       .epochs = 1,
       .optimizer = "adamw",
       .learning_rate = 0.001,
       .warmup_steps = 20,
       .clip_norm = 1},
  };
  return models;
}

const ModelInfo& FindModel(const std::string& name) {
  std::vector<std::string> known;
  for (const ModelInfo& model : Models()) {
    if (model.name == name) return model;
    known.push_back(model.name);
  }
  throw std::invalid_argument(UnknownName("model", name, known));
}

DataSource ParseDataSource(const std::string& text) {
  const size_t colon = text.find(':');
  DataSource data{text.substr(0, colon), ""};
  if (colon != std::string::npos) data.path = text.substr(colon + 1);
  const DataInfo& info = FindDataSource(data.name);
  if (!info.path.empty() && data.path.empty()) {
    throw std::invalid_argument(
        fmt::format("'{}' doesn't say where the data is: {}", text, info.Form()));
  }
  if (info.path.empty() && colon != std::string::npos) {
    throw std::invalid_argument(fmt::format("'{}': {} takes no path", text, info.name));
  }
  return data;
}

void CheckGoTogether(const ModelInfo& model, const DataSource& data) {
  if (FindDataSource(data.name).Serves(model.task)) return;
  std::vector<std::string> suitable;
  for (const DataInfo& source : DataSources()) {
    if (source.Serves(model.task)) suitable.push_back(source.Form());
  }
  throw std::invalid_argument(fmt::format("model {} can't learn from {}; it takes: {}", model.name,
                                          data.name, fmt::join(suitable, ", ")));
}

ImageOptions ImagesOf(const DataSource& data) { return FindDataSource(data.name).images; }

int64_t VocabularyOf(const DataSource& data) { return FindDataSource(data.name).vocabulary; }

}  // namespace launch
