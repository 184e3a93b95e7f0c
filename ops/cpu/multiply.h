// Who multiplies: a loop of ours or a library, on how many threads.
#pragma once

#include "ops/cpu/matrix_product.h"

namespace ops::cpu {

// C = or += op(A) op(B), plus `bias`, a row of n numbers, in every row; null: none, and bias and
// product.accumulate exclude each other. Large float32 products go to OpenBLAS or oneDNN,
// single-threaded, by a fixed table over shapes and kinds of CPU (matmul_table.h); tiny ones to a
// loop of ours. They are split over threads at boundaries that depend on the shape alone, so every
// number of threads gives the same bits.
void Multiply(const MatrixProduct<float>& product, const float* bias = nullptr);
void Multiply(const MatrixProduct<double>& product, const double* bias = nullptr);

}  // namespace ops::cpu
