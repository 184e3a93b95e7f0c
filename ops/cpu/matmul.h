// Matrix products on the CPU.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // add to what `out` holds instead of overwriting it
};

// out[m, n] = op(a) op(b), with op(a) [m, k] and op(b) [k, n], where op transposes or not.
// float32 and float64; all three of one dtype; shapes are the caller's to check. Empty extents are
// fine (k = 0 gives zeros).
//
// Large float32 products go to OpenBLAS or oneDNN, single-threaded, by a fixed table over shapes
// and kinds of CPU (matmul_table.h); tiny ones to a loop of ours. They are split over threads at
// boundaries that depend on the shape alone, so every number of threads gives the same bits.
void MatMul(const Tensor& a, const Tensor& b, const Tensor& out, const MatMulOptions& options = {});

}  // namespace ops::cpu
