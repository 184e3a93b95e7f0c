// Convolutions of many channels at small extents as matrix products (multiply.h): the pixels that
// each output pixel meets are copied into columns, of which the weight then multiplies many at
// once. The direct kernels lose there, as the gaps between short rows weigh much and the weights
// don't stay in a cache. The functions mean what those of convolution.h and
// convolution_weight_gradient.h do, which call them.
#pragma once

#include "ops/cpu/convolution_shape.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

// Whether products are faster: a fixed table over shapes, so that the same convolution has the same
// bits in every run and on any number of threads.
bool ConvolvesByProducts(const ConvolutionShape& shape, DType dtype);

void ForwardByProducts(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& y, bool accumulate);
void BackwardDataByProducts(const ConvolutionShape& shape, const Tensor& dy, const Tensor& weight,
                            const Tensor& bias, const Tensor& dx, bool accumulate);
void BackwardWeightByProducts(const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                              const Tensor& dw, bool accumulate);

}  // namespace ops::cpu
