// An exponential moving average of weights (Polyak and Juditsky 1992), which often evaluates better
// than the weights themselves.
//
//   optim::ExponentialMovingAverage average(model.Parameters(), 0.999);
//   for (...) {
//     ...
//     optimizer.Step();
//     average.Update();
//   }
//   {
//     const optim::ScopedAverages use(average);  // the model's weights are the averages
//     Evaluate(model);
//   }                                            // and here again what they were
#pragma once

#include <vector>

#include "ops/optim/kernels.h"
#include "ops/tensor/tensor.h"

namespace ops::optim {

class ExponentialMovingAverage {
 public:
  // The averages begin as the parameters are now; those of bfloat16 and float16 are float32. Throws
  // std::invalid_argument for a decay outside [0, 1], and for a parameter that isn't floating
  // point.
  ExponentialMovingAverage(std::vector<NamedTensor> parameters, double decay);

  // average = decay average + (1 - decay) parameter, in one pass over all of them.
  void Update();

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  // The averages, under their parameters' names. They share memory with this object: what is copied
  // into them, from a checkpoint, is its state.
  const std::vector<NamedTensor>& averages() const { return averages_; }

 private:
  struct Flat {
    kernels::FlatRange range;
    Tensor averages;
  };

  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> averages_;
  std::vector<Flat> flat_;  // one for each dtype
  double decay_;
};

// Puts the averages into the parameters until the scope ends, when the parameters are again what
// they were, bit for bit. Needs memory for a copy of them. The average must outlive it, and must
// not be updated meanwhile.
class ScopedAverages {
 public:
  explicit ScopedAverages(const ExponentialMovingAverage& average);
  ~ScopedAverages();
  ScopedAverages(const ScopedAverages&) = delete;
  ScopedAverages& operator=(const ScopedAverages&) = delete;

 private:
  const ExponentialMovingAverage& average_;
  std::vector<Tensor> replaced_;
};

}  // namespace ops::optim
