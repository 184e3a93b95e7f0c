// Pooling over windows of [batch, channels, h, w], or of [batch, channels, length] for the 1d
// forms.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/autograd/convolution.h"
#include "ops/tensor/tensor.h"

namespace ops {

struct Pool2dOptions {
  std::optional<Extent2> stride = {};  // the kernel's extent where not given
  Extent2 padding = 0;                 // at most half the kernel
  bool ceil_mode = false;              // a last window may reach beyond the (padded) edge
};

// The largest of each window; padding counts as -infinity. NaN counts as the largest. The gradient
// goes to the first of equals, to the last of NaNs.
Tensor MaxPool2d(const Tensor& x, Extent2 kernel, const Pool2dOptions& options = {});
// The mean of each window. With `count_padding` (PyTorch's default) zeros of the padding count.
Tensor AvgPool2d(const Tensor& x, Extent2 kernel, const Pool2dOptions& options = {},
                 bool count_padding = true);

// Means of output.height x output.width windows that cover x: window i of n over an extent of h
// goes from floor(i h / n) to ceil((i + 1) h / n).
Tensor AdaptiveAvgPool2d(const Tensor& x, Extent2 output);
Tensor AdaptiveMaxPool2d(const Tensor& x, Extent2 output);

struct Pool1dOptions {
  std::optional<int64_t> stride = {};
  int64_t padding = 0;
  bool ceil_mode = false;
};
Tensor MaxPool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {});
Tensor AvgPool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options = {},
                 bool count_padding = true);
Tensor AdaptiveAvgPool1d(const Tensor& x, int64_t output);
Tensor AdaptiveMaxPool1d(const Tensor& x, int64_t output);

}  // namespace ops
