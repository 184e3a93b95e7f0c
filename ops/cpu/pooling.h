// Pooling on the CPU, over the planes [h, w] of tensors [batch, channels, h, w]. Every floating
// dtype, all tensors of one; bfloat16 and float16 are calculated in float32 and rounded once.
// Shapes are the caller's to check. Planes are split over threads.
#pragma once

#include "ops/cpu/pooling_shape.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

// What MaxPool keeps for its gradient is of this dtype, and of y's shape: uint8 where an element's
// place in its window fits, else int64.
DType MaxPoolIndexType(const PoolingShape& shape);

// y = the largest of each window, `indices` = which it was: the first of equals, the last NaN.
void MaxPool(const PoolingShape& shape, const Tensor& x, const Tensor& y, const Tensor& indices);
void MaxPoolBackward(const PoolingShape& shape, const Tensor& dy, const Tensor& indices,
                     const Tensor& dx, bool accumulate);

// y = the mean of each window. With `count_padding` a window's sum is divided by how many elements
// it has within the padded plane, else within the plane.
void AveragePool(const PoolingShape& shape, bool count_padding, const Tensor& x, const Tensor& y);
void AveragePoolBackward(const PoolingShape& shape, bool count_padding, const Tensor& dy,
                         const Tensor& dx, bool accumulate);

}  // namespace ops::cpu
