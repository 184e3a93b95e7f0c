// Convolutions (cross-correlations, as everywhere in this field) of one and two dimensions.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops {

// A height and a width; a single number stands for both.
struct Extent2 {
  int64_t height = 0;
  int64_t width = 0;
  constexpr Extent2(int64_t both) : height(both), width(both) {}  // NOLINT: {.stride = 2}
  constexpr Extent2(int64_t h, int64_t w) : height(h), width(w) {}
  friend bool operator==(const Extent2&, const Extent2&) = default;
};

struct Conv2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;  // zeros on both sides
  Extent2 dilation = 1;
  int64_t groups = 1;
};

// x [batch, in, h, w], weight [out, in / groups, kh, kw], bias [out] or undefined
//   -> [batch, out, h', w'] with h' = (h + 2 padding - dilation (kh - 1) - 1) / stride + 1.
Tensor Conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;  // what the convolution that this is the adjoint of would have
  Extent2 output_padding =
      0;  // added to one side of the output's extents; below stride or dilation
  Extent2 dilation = 1;
  int64_t groups = 1;
};

// The adjoint of a convolution with respect to its input: x [batch, in, h, w],
// weight [in, out / groups, kh, kw], bias [out] or undefined -> [batch, out, h', w'] with
// h' = (h - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.
Tensor ConvTranspose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvTranspose2dOptions& options = {});

// The same along one dimension: x [batch, in, length], weight [out, in / groups, k].
struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};
Tensor Conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options = {});

struct ConvTranspose1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t output_padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};
Tensor ConvTranspose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvTranspose1dOptions& options = {});

}  // namespace ops
