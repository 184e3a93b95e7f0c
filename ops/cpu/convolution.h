// Convolutions on the CPU, forward and with respect to their input. The gradient with respect to
// the weight is in convolution_weight_gradient.h; a transposed convolution is the gradient with
// respect to the input, and has the convolution as its own.
//
// Every floating dtype, all tensors of one; bfloat16 and float16 are calculated in float32 and
// rounded once. Shapes are the caller's to check. Images are split over threads; results don't
// depend on how many there are.
#pragma once

#include "ops/cpu/convolution_shape.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

// y = convolution of x with `weight`, plus bias [out_channels] where defined; `accumulate` adds to
// what y holds.
void ConvolutionForward(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& y, bool accumulate = false);

// dx = the gradient with respect to x when y's is dy, plus bias [in_channels] where defined.
void ConvolutionBackwardData(const ConvolutionShape& shape, const Tensor& dy, const Tensor& weight,
                             const Tensor& bias, const Tensor& dx, bool accumulate = false);

}  // namespace ops::cpu
