// Sums and maxima on the CPU, of floating point dtypes where nothing else is said. The order of
// additions depends on shapes alone, never on threads, timing or the instruction set. All are
// calculated in float64 and rounded once.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// out = sum of x over the dimensions that out lacks or has as extent 1, aligned at the innermost
// dimension: the adjoint of broadcasting out to x's shape. A scalar `out` gets the sum of all.
// An empty sum is 0; `accumulate` adds to what `out` holds. `factor` multiplies the sums before
// they are rounded, so that a mean in float16 doesn't overflow where its result would not.
void SumTo(const Tensor& x, const Tensor& out, bool accumulate = false, double factor = 1);

// The largest element along dimension `dim` (from 0 on, of an extent of at least 1), and its index:
// values (x's dtype, any) and indices (int64) have x's elements without that dimension. NaN is
// larger than all; of equals the first counts.
void Max(const Tensor& x, int dim, const Tensor& values, const Tensor& indices);
// Adds dy to the elements of dx that Max found.
void MaxBackward(const Tensor& dy, const Tensor& indices, int dim, const Tensor& dx);

// Sum of x_i^2 over all elements, calculated in float64: for gradient norms.
double SumOfSquares(const Tensor& x);

// True when no element is NaN or infinite.
bool AllFinite(const Tensor& x);

}  // namespace ops::cpu
