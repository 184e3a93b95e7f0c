// Loss functions on the CPU, each with the gradient of its input. Floating point dtypes. Shapes are
// the caller's to check.
//
// A loss comes as one value an element (an example, for cross-entropy) where `loss` has their
// shape, or as their sum times a factor where it is a scalar. `dloss`, of the shape that `loss`
// had, is the gradient that arrives there; `factor` the same as in the forward pass.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// With d = x - target:
enum class ElementLoss {
  kSquared,   // d^2
  kAbsolute,  // |d|
  kHuber,     // 0.5 d^2 where |d| <= delta, else delta (|d| - 0.5 delta)
  kLogistic,  // log(1 + exp(x)) - target x: cross-entropy between sigmoid(x) and target
  // The gradient of kLogistic with respect to its target instead of x: for backward only.
  kLogisticTarget,
};

void ElementLossForward(ElementLoss kind, const Tensor& x, const Tensor& target, const Tensor& loss,
                        double factor, double delta = 1);
void ElementLossBackward(ElementLoss kind, const Tensor& x, const Tensor& target,
                         const Tensor& dloss, double factor, const Tensor& dx, bool accumulate,
                         double delta = 1);

struct CrossEntropyParameters {
  int64_t ignore_index = -100;  // rows with this target have neither loss nor gradient
  double label_smoothing = 0;   // see below
};

// Cross-entropy from logits[rows, classes] and int64 targets[rows]. The loss of row i is
//   log_sums[i] + largest[i] - (1 - smoothing) logits[i, targets[i]] - smoothing mean(logits[i]),
// with log_sums[i] = log(sum_j exp(logits[i, j] - largest[i])) and largest[i] the row's maximum,
// which is kept apart so that large logits lose no precision. log_sums is float64 for float64
// logits and float32 for others.
void CrossEntropyForward(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                         const Tensor& log_sums, double factor,
                         const CrossEntropyParameters& parameters = {});
// dlogits[i, j] = exp(logits[i, j] - largest[i] - log_sums[i]) - (1 - smoothing) [j = targets[i]]
//                 - smoothing / classes, times dloss and factor.
void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                          const Tensor& dloss, double factor, const Tensor& dlogits,
                          bool accumulate, const CrossEntropyParameters& parameters = {});

// How many targets aren't ignored. Throws std::invalid_argument, with row and value, for one that
// is neither `ignore_index` nor in [0, classes).
int64_t CountTargets(const Tensor& targets, int64_t classes, int64_t ignore_index);

}  // namespace ops::cpu
