// Dynamic loss scaling for float16, whose smallest numbers are too large for many gradients: the
// loss is multiplied by a factor, and the gradients divided by it in float32. When one overflows,
// the step is left out and the factor halved; after many good steps it is doubled. The rules and
// the numbers are those of PyTorch's GradScaler.
//
//   optim::LossScaler scaler;
//   for (...) {
//     model.ZeroGrad();
//     Backward(scaler.Scale(loss));
//     masters.WidenGradients();               // master_weights.h
//     if (scaler.Unscale(masters.parameters())) {
//       optim::ClipGradNorm(masters.parameters(), 1.0);
//       optimizer.Step();
//       masters.RoundIntoModel();
//     }
//     scaler.Update();
//   }
//
// Everything is decided from gradients. Under DistributedDataParallel those are averaged before
// Unscale sees them, and the same bits on all ranks, as an infinity of one rank is in the average
// of all: so all ranks leave out the same steps and have the same scale, without a word about it.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops::optim {

struct LossScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good steps, one after the other, before the scale grows
};

class LossScaler {
 public:
  // Throws std::invalid_argument, with name and value, unless the scale is positive and a float32,
  // the growth factor above 1, the backoff factor between 0 and 1 and the interval at least 1.
  explicit LossScaler(const LossScalerOptions& options = {});

  // loss scale() in float32, differentiable. Where the loss is float16 itself, its gradient must
  // hold the scale, which 65536 doesn't; so calculate it in float32: CrossEntropyLoss(Cast(outputs,
  // DType::kFloat32), targets).
  Tensor Scale(const Tensor& loss) const;

  // Divides all gradients by the scale, and says whether they are all finite: the step may be
  // taken. Parameters without a gradient are passed over. Several calls before Update, for the
  // parameters of several optimizers, count as one step.
  bool Unscale(const std::vector<NamedTensor>& parameters);

  // Ends a step. Throws std::logic_error unless Unscale was called since the last.
  void Update();

  double scale() const { return scale_; }

  // "scale" and "growth_tracker", the good steps since the scale last changed, as copies.
  std::vector<NamedTensor> StateDict() const;
  // Throws std::invalid_argument unless both are there, one number each, and fit; then nothing has
  // changed.
  void LoadStateDict(const std::vector<NamedTensor>& state);

 private:
  enum class Seen { kNothing, kFinite, kOverflow };

  LossScalerOptions options_;
  double scale_;
  int64_t growth_tracker_ = 0;
  Seen seen_ = Seen::kNothing;  // since the last Update
};

}  // namespace ops::optim
