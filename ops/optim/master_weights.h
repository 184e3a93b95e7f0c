// Float32 master weights, for models whose parameters are bfloat16 or float16 (Micikevicius et al.
// 2018): an update that is less than half a step of the 16-bit number would be rounded away each
// time; in the master it adds up.
//
//   model.To(DType::kBFloat16);
//   optim::MasterWeights masters(model.Parameters());
//   optim::AdamW optimizer(masters.parameters(), {.learning_rate = 1e-3});
//   for (...) {
//     model.ZeroGrad();
//     Backward(loss);
//     masters.WidenGradients();
//     optim::ClipGradNorm(masters.parameters(), 1.0);
//     optimizer.Step();
//     masters.RoundIntoModel();
//   }
//
// Checkpoints hold the masters, under the parameters' names, with the model's Buffers(): what a
// float32 model would have saved.
//
// From its making on the masters are the truth: what is written into the model's parameters by
// others is overwritten after the next step. So DistributedDataParallel, which gives all ranks
// rank 0's parameters, comes first. Equal gradients then keep masters and parameters equal on all
// ranks, bit for bit.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops::optim {

class MasterWeights {
 public:
  // Masters begin with the parameters' values; LoadStateDict gives them those of before the
  // rounding. A parameter in float32 or float64 is its own master. Throws std::invalid_argument for
  // one that isn't floating point.
  explicit MasterWeights(std::vector<NamedTensor> parameters);

  // The masters, under the parameters' names and in their order: for the optimizer, for clipping,
  // for checkpoints. Neighbours lie one after the other in memory.
  const std::vector<NamedTensor>& parameters() const { return masters_; }

  // Gives each master its parameter's gradient, sparse where that is, or none where that has none.
  void WidenGradients();
  // Rounds each master, once, into its parameter.
  void RoundIntoModel();
  // The same for some of the parameters, known by their names, for a step of these alone
  // (Optimizer::Step).
  void WidenGradients(std::span<const NamedTensor> parameters);
  void RoundIntoModel(std::span<const NamedTensor> parameters);

  // Copies values by name, of any floating dtype, into the masters, and rounds them into the model.
  // Names that aren't parameters are passed over: a model's state has buffers too. Throws
  // std::invalid_argument for a parameter that is missing, or has another shape, and then nothing
  // has changed.
  void LoadStateDict(const std::vector<NamedTensor>& state);

 private:
  // A parameter that isn't its own master.
  struct Pair {
    Tensor parameter;
    Tensor master;
    Tensor gradient;  // the place of the master's
  };

  static void Widen(const Pair& pair);

  std::vector<NamedTensor> masters_;
  std::vector<Pair> pairs_;
  std::map<std::string, size_t, std::less<>> pair_of_;  // by the parameter's name
};

}  // namespace ops::optim
