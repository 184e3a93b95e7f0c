#include "tests/parity/goldens.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ddp/checkpoint/safetensors.h"
#include "launch/models/convnet.h"
#include "launch/models/gpt.h"
#include "launch/models/resnet.h"
#include "ops/nn/layers.h"
#include "ops/nn/losses.h"
#include "ops/optim/adam.h"
#include "ops/optim/optimizer.h"
#include "ops/optim/sgd.h"

namespace parity {
namespace {

// Tests run in their runfiles, where data lies under its path in the workspace.
std::string PathOf(const std::string& file) { return "tests/parity/goldens/" + file; }

const ops::Tensor& Find(const std::vector<ops::NamedTensor>& tensors, const std::string& name) {
  for (const ops::NamedTensor& entry : tensors) {
    if (entry.name == name) return entry.tensor;
  }
  throw std::out_of_range("no golden tensor " + name);
}

nlohmann::json OptimizerRecord(const std::string& model, const std::string& optimizer) {
  std::ifstream file(PathOf("losses.json"));
  return nlohmann::json::parse(file).at("models").at(model).at("optimizers").at(optimizer);
}

// "w2": how the goldens call the training on two ranks.
std::string WorldKey(int world_size) { return fmt::format("w{}", world_size); }

// values[index] for the first dimension.
ops::Tensor At(const ops::Tensor& values, int64_t index) {
  return values.Slice(index, index + 1).View(values.shape().DropFirst());
}

ops::Tensor Join(const std::vector<ops::Tensor>& parts) {
  const ops::Shape& part = parts[0].shape();
  ops::Tensor joined = ops::Tensor::Empty(
      part.DropFirst().Prepend(part[0] * static_cast<int64_t>(parts.size())), parts[0].options());
  for (size_t i = 0; i < parts.size(); ++i) {
    joined.Slice(i * part[0], (i + 1) * part[0]).CopyFrom(parts[i]);
  }
  return joined;
}

std::unique_ptr<ops::nn::Module> Mlp() {
  auto mlp = std::make_unique<ops::nn::Sequential>();
  mlp->Add<ops::nn::Linear>(20, 32);
  mlp->Add<ops::nn::Relu>();
  mlp->Add<ops::nn::Linear>(32, 32);
  mlp->Add<ops::nn::Relu>();
  mlp->Add<ops::nn::Linear>(32, 10);
  return mlp;
}

constexpr launch::ImageOptions kImages = {.channels = 1, .height = 8, .width = 8, .classes = 10};
constexpr int64_t kChannels = 4;

// With initial weights that MakeModel replaces.
std::unique_ptr<ops::nn::Module> Architecture(const std::string& model) {
  ops::Generator generator(0);
  if (model == "linear52") return std::make_unique<ops::nn::Linear>(5, 2);
  if (model == "mlp") return Mlp();
  if (model == "gpt") {
    return std::make_unique<launch::Gpt>(
        launch::GptOptions{.layers = 2, .width = 32, .heads = 2, .context = 16, .vocab = 64},
        generator);
  }
  if (model == "convnet") return std::make_unique<launch::ConvNet>(kImages, generator, kChannels);
  if (model == "resnet") return std::make_unique<launch::ResNet>(kImages, generator, kChannels);
  throw std::out_of_range("no golden model " + model);
}

}  // namespace

Goldens::Goldens(std::string model) : model_(std::move(model)) {
  const auto data = ddp::ReadSafetensors(PathOf(model_ + ".data.safetensors"));
  inputs_ = Find(data, "x");
  targets_ = Find(data, "y");
}

Tolerances Goldens::tolerances() const {
  if (model_ == "gpt") return {.loss = 5e-6, .state = 3e-6, .one_process = 7e-7, .gradient = 1e-5};
  if (model_ == "resnet") return {.loss = 2e-6, .state = 3e-6, .gradient = 1e-5};
  return {.loss = 2e-6, .state = 5e-7, .one_process = 3e-7, .gradient = 1e-5};
}

std::unique_ptr<ops::nn::Module> Goldens::MakeModel() const {
  std::unique_ptr<ops::nn::Module> model = Architecture(model_);
  model->LoadStateDict(ddp::ReadSafetensors(PathOf(model_ + ".init.safetensors")));
  return model;
}

ops::Tensor Goldens::Loss(const ops::Tensor& output, const ops::Tensor& targets) const {
  return model_ == "linear52" ? ops::nn::MseLoss(output, targets)
                              : ops::nn::CrossEntropyLoss(output, targets);
}

std::unique_ptr<ops::optim::Optimizer> Goldens::MakeOptimizer(const std::string& optimizer,
                                                              const ops::nn::Module& model) const {
  const nlohmann::json hyper = OptimizerRecord(model_, optimizer).at("hyper");
  const double learning_rate = hyper.at("lr");
  const double weight_decay = hyper.value("weight_decay", 0.0);
  if (optimizer == "adam" || optimizer == "adamw") {
    const ops::optim::AdamOptions options{.learning_rate = learning_rate,
                                          .weight_decay = weight_decay};
    if (optimizer == "adamw") {
      return std::make_unique<ops::optim::AdamW>(model.Parameters(), options);
    }
    return std::make_unique<ops::optim::Adam>(model.Parameters(), options);
  }
  return std::make_unique<ops::optim::Sgd>(
      model.Parameters(), ops::optim::SgdOptions{.learning_rate = learning_rate,
                                                 .momentum = hyper.value("momentum", 0.0),
                                                 .weight_decay = weight_decay});
}

ddp::Batch Goldens::RankBatch(int rank, int step) const {
  return {At(At(inputs_, rank), step % kBatches), At(At(targets_, rank), step % kBatches)};
}

ddp::Batch Goldens::JoinedBatch(int world_size, int step) const {
  std::vector<ops::Tensor> inputs, targets;
  for (int rank = 0; rank < world_size; ++rank) {
    const ddp::Batch batch = RankBatch(rank, step);
    inputs.push_back(batch.inputs);
    targets.push_back(batch.targets);
  }
  return {Join(inputs), Join(targets)};
}

std::vector<ops::NamedTensor> Goldens::FirstGradients() const {
  return ddp::ReadSafetensors(PathOf(model_ + ".grad0.safetensors"));
}

std::vector<std::vector<double>> Goldens::Losses(const std::string& optimizer,
                                                 int world_size) const {
  return OptimizerRecord(model_, optimizer).at(WorldKey(world_size)).at("local");
}

std::vector<double> Goldens::MeanLosses(const std::string& optimizer, int world_size) const {
  return OptimizerRecord(model_, optimizer).at(WorldKey(world_size)).at("mean");
}

std::vector<ops::NamedTensor> Goldens::FinalState(const std::string& optimizer,
                                                  int world_size) const {
  const std::string prefix = fmt::format("{}.{}/", optimizer, WorldKey(world_size));
  std::vector<ops::NamedTensor> state;
  for (const auto& [name, tensor] : ddp::ReadSafetensors(PathOf(model_ + ".final.safetensors"))) {
    if (name.starts_with(prefix)) state.push_back({name.substr(prefix.size()), tensor});
  }
  return state;
}

}  // namespace parity
