// The planes of convolution_plan.h, filled.
#pragma once

#include "ops/cpu/convolution_kernels.h"
#include "ops/cpu/convolution_plan.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

const ConvolutionKernels& ConvolutionKernelsOf(DType dtype);
// What elements of `dtype` are calculated in: float64 or float32.
DType ComputeType(DType dtype);

// Memory for the planes of a block's `channels`, with room to read beyond them.
Tensor PlanesFor(const CorrelationPlan& plan, int64_t channels, DType dtype);

// Copies channels [first_channel, + num_channels) of the block's part of x [batch, channels, h, w]
// to `planes`, channel after channel of plan.channel_elements() each.
void FillPlanes(const CorrelationPlan& plan, const CorrelationBlock& block, const Tensor& x,
                int64_t first_channel, int64_t num_channels, const Tensor& planes);

}  // namespace ops::cpu
