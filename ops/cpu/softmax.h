// Softmax and its logarithm on the CPU. Floating point dtypes; shapes are the caller's to check.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

enum class SoftmaxKind {
  kPlain,  // exp(x_i) / sum_j exp(x_j)
  kLog,    // x_i - log(sum_j exp(x_j))
};

// y of x along dimension `dim`, 0 to rank - 1. A scalar has the dimension 0.
void SoftmaxForward(SoftmaxKind kind, const Tensor& x, int dim, const Tensor& y);
// dx from the output and its gradient:
//   kPlain: y_i (dy_i - sum_j y_j dy_j)      kLog: dy_i - exp(y_i) sum_j dy_j
void SoftmaxBackward(SoftmaxKind kind, const Tensor& y, const Tensor& dy, int dim, const Tensor& dx,
                     bool accumulate);

}  // namespace ops::cpu
