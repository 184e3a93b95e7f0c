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
//   loss = mean over the batch of log_normalizer[i] - logits[i, targets[i]],
// with log_normalizer[i] = log(sum_j exp(logits[i, j])), calculated after subtracting the row's
// maximum. Throws std::invalid_argument, with row and value, for a target outside [0, classes).
void CrossEntropyForward(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                         const Tensor& log_normalizer);
// dlogits[i, j] = (exp(logits[i, j] - log_normalizer[i]) - [j = targets[i]]) dloss / batch.
void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_normalizer,
                          const Tensor& dloss, const Tensor& dlogits, bool accumulate);

// How many rows have their largest logit at the target: for accuracy. The first of equals wins.
int64_t CountCorrect(const Tensor& logits, const Tensor& targets);

}  // namespace ops::cpu
