// The extents of a convolution, as its kernels want them.
#pragma once

#include <cstdint>

namespace ops::cpu {

// Along one axis, y[o] = sum over k of weight[k] x[o stride + k dilation - padding], where x is
// zero outside [0, in), for o in [0, out).
struct ConvolutionAxis {
  int64_t in, out, kernel;
  int64_t stride = 1, padding = 0, dilation = 1;
};

// x [batch, in_channels, h, w], weight [out_channels, in_channels / groups, kh, kw],
// y [batch, out_channels, h', w'].
struct ConvolutionShape {
  int64_t batch, in_channels, out_channels, groups;
  ConvolutionAxis height, width;

  int64_t kernel_elements() const { return height.kernel * width.kernel; }
  int64_t in_pixels() const { return height.in * width.in; }
  int64_t out_pixels() const { return height.out * width.out; }
};

}  // namespace ops::cpu
