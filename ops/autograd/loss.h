// Losses: scalars, means unless the reduction says otherwise. Shapes of input and target must be
// equal: nothing is broadcast in silence.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops {

enum class Reduction { kMean, kSum, kNone };  // kNone: one value an element (an example)

// (x - target)^2.
Tensor MseLoss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean);
// |x - target|; its slope at 0 is 0.
Tensor L1Loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::kMean);
// 0.5 d^2 where |d| <= delta, else delta (|d| - 0.5 delta), with d = x - target. Huber 1964.
Tensor HuberLoss(const Tensor& x, const Tensor& target, double delta = 1,
                 Reduction reduction = Reduction::kMean);

struct CrossEntropyOptions {
  int64_t ignore_index = -100;  // rows with this target count neither in sum nor in mean
  double label_smoothing = 0;   // this part of the probability is spread evenly over all classes
  Reduction reduction = Reduction::kMean;
};
// Cross-entropy between softmax(logits [..., classes]) and the classes in targets [...] (int64);
// the classes are the last dimension. Softmax and logarithm are one pass: no probability tensor.
// The mean of nothing but ignored rows is NaN. Throws std::invalid_argument, with row and value,
// for a target that is neither a class nor ignored.
Tensor CrossEntropyLoss(const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options = {});

// -(target log(sigmoid(x)) + (1 - target) log(1 - sigmoid(x))), safe for large x; targets are
// floating point, of x's shape.
Tensor BceWithLogitsLoss(const Tensor& x, const Tensor& target,
                         Reduction reduction = Reduction::kMean);

}  // namespace ops
