// Softmax: exp(x_i) / sum_j exp(x_j), safe for large values. A row of -infinity alone gives NaN.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops {

Tensor Softmax(const Tensor& x, int dim = -1);
// x_i - log(sum_j exp(x_j)).
Tensor LogSoftmax(const Tensor& x, int dim = -1);

}  // namespace ops
