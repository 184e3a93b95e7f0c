// The gradient of a convolution with respect to its weight.
#pragma once

#include "ops/cpu/convolution_shape.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

// dw [out_channels, in_channels / groups, kh, kw] = the gradient when y's is dy; as in
// convolution.h. Sums run over parts of the batch that depend on the shape alone, and over these
// in float64. An empty batch gives zeros.
void ConvolutionBackwardWeight(const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                               const Tensor& dw, bool accumulate = false);

}  // namespace ops::cpu
