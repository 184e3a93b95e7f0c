// PyTorch's golden values for training parity (goldens/, described in README.md): initial weights,
// batches, hyper-parameters, and what 20 steps of DistributedDataParallel made of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/data/dataset.h"
#include "ops/nn/module.h"
#include "ops/optim/optimizer.h"
#include "ops/tensor/tensor.h"

namespace parity {

inline constexpr int kSteps = 20;
inline constexpr int kBatches = 5;
inline constexpr int kMaxWorldSize = 4;

// The noise of float32, with room: README.md has what was measured.
struct Tolerances {
  double loss;
  double state;            // parameters and running statistics, after the last step
  double one_process = 0;  // parameters of several ranks, from one process on the joined batch
  double gradient;         // relative to the tensor's largest gradient
};

class Goldens {
 public:
  // `model` is "linear52", "mlp", "gpt", "convnet" or "resnet".
  explicit Goldens(std::string model);

  Tolerances tolerances() const;

  // A module of the model's architecture, with the golden initial weights.
  std::unique_ptr<ops::nn::Module> MakeModel() const;
  // The loss of the model's output for a batch's targets.
  ops::Tensor Loss(const ops::Tensor& output, const ops::Tensor& targets) const;
  // `optimizer` is "sgd", "sgdm", "adam" or "adamw".
  std::unique_ptr<ops::optim::Optimizer> MakeOptimizer(const std::string& optimizer,
                                                       const ops::nn::Module& model) const;

  // The batch of step `step` on `rank`.
  ddp::Batch RankBatch(int rank, int step) const;
  // The batches of ranks 0 .. world_size-1 of that step, joined.
  ddp::Batch JoinedBatch(int world_size, int step) const;

  // Gradients of rank 0's loss at step 0, by parameter.
  std::vector<ops::NamedTensor> FirstGradients() const;
  // Losses by rank and step, and their means over the ranks by step.
  std::vector<std::vector<double>> Losses(const std::string& optimizer, int world_size) const;
  std::vector<double> MeanLosses(const std::string& optimizer, int world_size) const;
  // Rank 0's parameters and buffers after the last step.
  std::vector<ops::NamedTensor> FinalState(const std::string& optimizer, int world_size) const;

 private:
  std::string model_;
  ops::Tensor inputs_, targets_;  // [rank, batch, example, ...]
};

}  // namespace parity
