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
  bool has_directory = false;
  std::vector<Task> tasks;

  std::string Form() const { return has_directory ? name + ":DIR" : name; }
  bool Serves(Task task) const { return std::count(tasks.begin(), tasks.end(), task) > 0; }
};

const std::vector<DataInfo>& DataSources() {
  static const std::vector<DataInfo> sources = {
      {.name = "digits", .tasks = {Task::kClassification}},
      {.name = "mnist", .has_directory = true, .tasks = {Task::kClassification}},
      {.name = "synthetic", .tasks = {Task::kRegression, Task::kClassification}},
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
  if (colon != std::string::npos) data.directory = text.substr(colon + 1);
  const DataInfo& info = FindDataSource(data.name);
  if (info.has_directory && data.directory.empty()) {
    throw std::invalid_argument(
        fmt::format("'{}' needs the directory of its files: {}", text, info.Form()));
  }
  if (!info.has_directory && colon != std::string::npos) {
    throw std::invalid_argument(fmt::format("'{}': {} takes no directory", text, info.name));
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

}  // namespace launch
