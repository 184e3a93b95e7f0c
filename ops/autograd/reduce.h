// Sums, means and maxima, of all elements or over some dimensions.
#pragma once

#include <initializer_list>

#include "ops/tensor/tensor.h"

namespace ops {

// Over all elements: a scalar. The mean of nothing is NaN.
Tensor Sum(const Tensor& x);
Tensor Mean(const Tensor& x);

// Over one dimension or several, which disappear, or stay as 1 with `keep_dims`; negative ones
// count from the last. Throws std::invalid_argument for a dimension that x lacks or that comes
// twice.
Tensor Sum(const Tensor& x, std::initializer_list<int> dims, bool keep_dims = false);
Tensor Mean(const Tensor& x, std::initializer_list<int> dims, bool keep_dims = false);
inline Tensor Sum(const Tensor& x, int dim) { return Sum(x, {dim}); }
inline Tensor Mean(const Tensor& x, int dim) { return Mean(x, {dim}); }

// The largest element and where it is. NaN counts as the largest; of equals the first is taken, and
// gets the gradient. Throws std::invalid_argument for an empty extent.
struct MaxResult {
  Tensor values;
  Tensor indices;  // int64, without a gradient
};
MaxResult Max(const Tensor& x, int dim, bool keep_dim = false);
Tensor Max(const Tensor& x);  // of all elements
Tensor ArgMax(const Tensor& x, int dim);

}  // namespace ops
