// Matrix products on the CPU. Floating point dtypes; all tensors of one dtype. Shapes are the
// caller's to check. bfloat16 and float16 are multiplied as float32 matrices, and rounded once.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // add to what `out` holds instead of overwriting it
};

// out[..., m, n] = op(a) op(b), with op(a) [..., m, k] and op(b) [..., k, n], where op transposes
// the last two dimensions or not. Empty extents are fine (k = 0 gives zeros).
//
// The leading dimensions of all three are broadcast against each other. Where `out` lacks one that
// a and b have, or has it as extent 1, the products along it are added up, in order: that is the
// gradient of a factor that was broadcast.
void MatMul(const Tensor& a, const Tensor& b, const Tensor& out, const MatMulOptions& options = {});

// out[rows, n] = x[rows, k] weight[n, k]^T, plus bias[n], which may be undefined, in every row.
void MatMulPlusBias(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out);

}  // namespace ops::cpu
