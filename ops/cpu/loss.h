// Loss functions on the CPU, each a mean, with the gradient of their input. float32 and float64.
// Shapes are the caller's to check. `dloss` is the scalar gradient that arrives at the loss.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// loss = mean over all elements of (x - target)^2; of nothing it is NaN, as in PyTorch.
void MseForward(const Tensor& x, const Tensor& target, const Tensor& loss);
// dx = 2 (x - target) dloss / num_elements.
void MseBackward(const Tensor& x, const Tensor& target, const Tensor& dloss, const Tensor& dx,
                 bool accumulate);

// Cross-entropy from logits[batch, classes] and int64 targets[batch]:
//   loss = mean over the batch of log_sums[i] + largest[i] - logits[i, targets[i]],
// with log_sums[i] = log(sum_j exp(logits[i, j] - largest[i])) and largest[i] the row's maximum,
// which is kept apart so that large logits lose no precision. Throws std::invalid_argument, with
// row and value, for a target outside [0, classes).
void CrossEntropyForward(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                         const Tensor& log_sums);
// dlogits[i, j] = (exp(logits[i, j] - largest[i] - log_sums[i]) - [j = targets[i]]) dloss / batch.
void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                          const Tensor& dloss, const Tensor& dlogits, bool accumulate);

// How many rows have their largest logit at the target: for accuracy. The first of equals wins.
int64_t CountCorrect(const Tensor& logits, const Tensor& targets);

}  // namespace ops::cpu
