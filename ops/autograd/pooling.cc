#include "ops/autograd/pooling.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using kernels::PoolingAxis;
using kernels::PoolingShape;

[[noreturn]] void Throw(std::string_view name, const std::string& problem) {
  throw std::invalid_argument(fmt::format("{}: {}", name, problem));
}

// One dimension is two, of which the first has the extent 1 and windows of 1.
struct Geometry {
  PoolingShape shape;
  Shape input, output;  // of rank 4
  Shape result;         // output, of x's rank
};

// x with the rank, a floating dtype and nothing empty but the batch.
void CheckInput(std::string_view name, const Tensor& x, int rank) {
  RequireDefined(name, {x});
  const auto throw_unfit = [&](std::string_view expected) {
    Throw(name, fmt::format("expected {}, got {}", expected, x.Describe()));
  };
  if (!IsFloating(x.dtype())) throw_unfit("a floating point dtype");
  if (x.shape().rank() != rank) {
    throw_unfit(rank == 4 ? "[batch, channels, h, w]" : "[batch, channels, length]");
  }
  for (int i = 2; i < rank; ++i) {
    if (x.dim(i) == 0) throw_unfit("planes that are not empty");
  }
}

Geometry GeometryOf(const Tensor& x, const PoolingAxis& height, const PoolingAxis& width) {
  const Shape output = {x.dim(0), x.dim(1), height.out, width.out};
  const bool is_flat = x.shape().rank() == 3;
  return {.shape = {height, width},
          .input = {x.dim(0), x.dim(1), height.in, width.in},
          .output = output,
          .result = is_flat ? Shape{x.dim(0), x.dim(1), width.out} : output};
}

// PyTorch's number of windows: in ceil mode one more may reach beyond the edge, but must begin
// before the padding there does.
PoolingAxis AxisOf(std::string_view name, int64_t in, int64_t kernel, int64_t stride,
                   int64_t padding, bool ceil_mode) {
  constexpr int64_t kMost = int64_t{1} << 30;  // so that no sum overflows
  if (kernel < 1 || kernel > kMost) {
    Throw(name, fmt::format("the kernel's extent is {}, expected 1 to {}", kernel, kMost));
  }
  if (stride < 1 || stride > kMost) {
    Throw(name, fmt::format("stride is {}, expected 1 to {}", stride, kMost));
  }
  if (padding < 0 || padding > kernel / 2) {
    Throw(name, fmt::format("padding is {}, expected 0 to half of the kernel's extent {}", padding,
                            kernel));
  }
  const int64_t room = in + 2 * padding - kernel;
  const int64_t rounding = ceil_mode ? stride - 1 : 0;
  if (room + rounding < 0) {
    Throw(name, fmt::format("a window of {} doesn't fit an extent of {} with padding {}", kernel,
                            in, padding));
  }
  int64_t out = (room + rounding) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return {.in = in, .out = out, .kernel = kernel, .stride = stride, .padding = padding};
}

PoolingAxis WholeAxis() { return {.in = 1, .out = 1, .kernel = 1, .stride = 1, .padding = 0}; }

PoolingAxis AdaptiveAxis(std::string_view name, int64_t in, int64_t out) {
  if (out < 0) Throw(name, fmt::format("the output's extent is {}, expected at least 0", out));
  return {.in = in, .out = out, .is_adaptive = true};
}

Geometry WindowsOf(std::string_view name, const Tensor& x, Extent2 kernel,
                   const Pool2dOptions& options) {
  CheckInput(name, x, 4);
  const Extent2 stride = options.stride.value_or(kernel);
  return GeometryOf(
      x,
      AxisOf(name, x.dim(2), kernel.height, stride.height, options.padding.height,
             options.ceil_mode),
      AxisOf(name, x.dim(3), kernel.width, stride.width, options.padding.width, options.ceil_mode));
}

Geometry WindowsOf(std::string_view name, const Tensor& x, int64_t kernel,
                   const Pool1dOptions& options) {
  CheckInput(name, x, 3);
  return GeometryOf(x, WholeAxis(),
                    AxisOf(name, x.dim(2), kernel, options.stride.value_or(kernel), options.padding,
                           options.ceil_mode));
}

Geometry AdaptiveWindowsOf(std::string_view name, const Tensor& x, Extent2 output) {
  CheckInput(name, x, 4);
  return GeometryOf(x, AdaptiveAxis(name, x.dim(2), output.height),
                    AdaptiveAxis(name, x.dim(3), output.width));
}

Geometry AdaptiveWindowsOf(std::string_view name, const Tensor& x, int64_t output) {
  CheckInput(name, x, 3);
  return GeometryOf(x, WholeAxis(), AdaptiveAxis(name, x.dim(2), output));
}

// The gradient needs to know which element won, not what x was.
Tensor MaxPool(std::string_view name, const Tensor& x, const Geometry& geometry) {
  Tensor y = Tensor::Empty(geometry.result, x.options());
  const Tensor indices =
      Tensor::Empty(geometry.output, {kernels::MaxPoolIndexType(geometry.shape), x.device()});
  kernels::MaxPool(geometry.shape, x.View(geometry.input), y.View(geometry.output), indices);
  if (!NeedsTape({x})) return y;
  return Record(
      name, std::move(y), {x},
      [shape = geometry.shape, input = geometry.input, indices](const Tensor& dy, Node& node) {
        const auto [place, accumulate] = node.input(0)->Target();
        kernels::MaxPoolBackward(shape, dy.View(indices.shape()), indices, place.View(input),
                                 accumulate);
      });
}

Tensor AveragePool(std::string_view name, const Tensor& x, const Geometry& geometry,
                   bool count_padding) {
  Tensor y = Tensor::Empty(geometry.result, x.options());
  kernels::AveragePool(geometry.shape, count_padding, x.View(geometry.input),
                       y.View(geometry.output));
  if (!NeedsTape({x})) return y;
  return Record(name, std::move(y), {x},
                [shape = geometry.shape, input = geometry.input, output = geometry.output,
                 count_padding](const Tensor& dy, Node& node) {
                  const auto [place, accumulate] = node.input(0)->Target();
                  kernels::AveragePoolBackward(shape, count_padding, dy.View(output),
                                               place.View(input), accumulate);
                });
}

}  // namespace

Tensor MaxPool2d(const Tensor& x, Extent2 kernel, const Pool2dOptions& options) {
  return MaxPool("MaxPool2d", x, WindowsOf("MaxPool2d", x, kernel, options));
}

Tensor AvgPool2d(const Tensor& x, Extent2 kernel, const Pool2dOptions& options,
                 bool count_padding) {
  return AveragePool("AvgPool2d", x, WindowsOf("AvgPool2d", x, kernel, options), count_padding);
}

Tensor AdaptiveAvgPool2d(const Tensor& x, Extent2 output) {
  return AveragePool("AdaptiveAvgPool2d", x, AdaptiveWindowsOf("AdaptiveAvgPool2d", x, output),
                     false);
}

Tensor AdaptiveMaxPool2d(const Tensor& x, Extent2 output) {
  return MaxPool("AdaptiveMaxPool2d", x, AdaptiveWindowsOf("AdaptiveMaxPool2d", x, output));
}

Tensor MaxPool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options) {
  return MaxPool("MaxPool1d", x, WindowsOf("MaxPool1d", x, kernel, options));
}

Tensor AvgPool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options,
                 bool count_padding) {
  return AveragePool("AvgPool1d", x, WindowsOf("AvgPool1d", x, kernel, options), count_padding);
}

Tensor AdaptiveAvgPool1d(const Tensor& x, int64_t output) {
  return AveragePool("AdaptiveAvgPool1d", x, AdaptiveWindowsOf("AdaptiveAvgPool1d", x, output),
                     false);
}

Tensor AdaptiveMaxPool1d(const Tensor& x, int64_t output) {
  return MaxPool("AdaptiveMaxPool1d", x, AdaptiveWindowsOf("AdaptiveMaxPool1d", x, output));
}

}  // namespace ops
