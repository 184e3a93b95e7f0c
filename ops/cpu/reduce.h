// Sums on the CPU, of floating point dtypes. The order of additions depends on shapes alone, never
// on threads, timing or the instruction set. All are calculated in float64 and rounded once.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// out = sum of x over the dimensions that out lacks or has as extent 1, aligned at the innermost
// dimension: the adjoint of broadcasting out to x's shape. A scalar `out` gets the sum of all.
// An empty sum is 0; `accumulate` adds to what `out` holds. `factor` multiplies the sums before
// they are rounded, so that a mean in float16 doesn't overflow where its result would not.
void SumTo(const Tensor& x, const Tensor& out, bool accumulate = false, double factor = 1);

// Sum of x_i^2 over all elements, calculated in float64: for gradient norms.
double SumOfSquares(const Tensor& x);

// True when no element is NaN or infinite.
bool AllFinite(const Tensor& x);

}  // namespace ops::cpu
