// Matrix products.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops {

// [..., m, k] x [..., k, n] -> [..., m, n], each factor transposed first (its last two dimensions)
// where asked. Leading dimensions are broadcast, as in PyTorch.
struct MatMulFlags {
  bool transpose_a = false;
  bool transpose_b = false;
};
Tensor MatMul(const Tensor& a, const Tensor& b, const MatMulFlags& flags = {});

// y = x W^T + b: x [..., in], weight [out, in], bias [out] or undefined -> [..., out].
Tensor Linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace ops
