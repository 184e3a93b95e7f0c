// The same elements in other places: tensors are contiguous, so all but Reshape and Flatten copy.
// Every dtype; negative dimensions count from the last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops {

// The same elements in another shape, sharing memory.
Tensor Reshape(const Tensor& x, const Shape& shape);
// Dimensions from `first_dim` on become one: [batch, channels, h, w] -> [batch, channels h w].
Tensor Flatten(const Tensor& x, int first_dim = 1);

// Exchanges two dimensions.
Tensor Transpose(const Tensor& x, int dim0, int dim1);
// Dimension i of the result is dimension dims[i] of x.
Tensor Permute(const Tensor& x, const std::vector<int>& dims);

// One after the other along `dim`; the other extents are equal.
Tensor Concatenate(const std::vector<Tensor>& tensors, int dim = 0);
// Indices [begin, end) of `dim`.
Tensor Slice(const Tensor& x, int dim, int64_t begin, int64_t end);
// Pieces of the given extents, which add up to the dimension's; or of `extent` each, the last
// perhaps shorter.
std::vector<Tensor> Split(const Tensor& x, std::span<const int64_t> extents, int dim = 0);
std::vector<Tensor> Split(const Tensor& x, int64_t extent, int dim = 0);

// `value` put around x: padding[i] belongs to dimension i of x. Negative ones cut off.
struct Padding {
  int64_t before = 0;
  int64_t after = 0;
};
Tensor Pad(const Tensor& x, const std::vector<Padding>& padding, double value = 0);

}  // namespace ops
