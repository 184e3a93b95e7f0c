#include "ops/autograd/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using kernels::ConvolutionAxis;
using kernels::ConvolutionShape;

// What the four functions share: one dimension is two, of which the first has the extent 1.
struct Arguments {
  std::string_view name;
  const Tensor &x, &weight, &bias;
  bool is_transposed;
  Extent2 stride, padding, output_padding, dilation;
  int64_t groups;
  int rank;  // of x: 3 or 4

  [[noreturn]] void Throw(const std::string& problem) const {
    throw std::invalid_argument(fmt::format("{}: {}", name, problem));
  }
  std::string Text(const Extent2& extent) const {
    return rank == 4 ? fmt::format("{}x{}", extent.height, extent.width)
                     : fmt::format("{}", extent.width);
  }
  // Of both extents. The upper bound keeps products of two in an int64_t.
  void RequireAtLeast(int64_t least, const Extent2& extent, const char* option) const {
    constexpr int64_t kMost = int64_t{1} << 30;
    const auto [low, high] = std::minmax(extent.height, extent.width);
    if (low >= least && high <= kMost) return;
    Throw(fmt::format("{} is {}, expected at least {} and at most {}", option, Text(extent), least,
                      kMost));
  }
};

void CheckOptions(const Arguments& a) {
  a.RequireAtLeast(1, a.stride, "stride");
  a.RequireAtLeast(0, a.padding, "padding");
  a.RequireAtLeast(0, a.output_padding, "output_padding");
  a.RequireAtLeast(1, a.dilation, "dilation");
  const auto fits = [](int64_t padding, int64_t stride, int64_t dilation) {
    return padding == 0 || padding < stride || padding < dilation;
  };
  if (!fits(a.output_padding.height, a.stride.height, a.dilation.height) ||
      !fits(a.output_padding.width, a.stride.width, a.dilation.width)) {
    a.Throw(fmt::format("output_padding is {}, expected less than stride {} or dilation {}",
                        a.Text(a.output_padding), a.Text(a.stride), a.Text(a.dilation)));
  }
}

// Channels, groups and bias; afterwards x and weight have the rank, and no extent of the kernel is
// 0.
void CheckTensors(const Arguments& a) {
  RequireSameType(a.name, a.x, a.weight);
  const char* const expected =
      a.rank == 4 ? (a.is_transposed ? "[batch, in, h, w] and [in, out / groups, kh, kw]"
                                     : "[batch, in, h, w] and [out, in / groups, kh, kw]")
                  : (a.is_transposed ? "[batch, in, length] and [in, out / groups, k]"
                                     : "[batch, in, length] and [out, in / groups, k]");
  const auto throw_unfit = [&] {
    a.Throw(fmt::format("input {} doesn't fit weight {} with {} groups: expected {}",
                        a.x.shape().ToString(), a.weight.shape().ToString(), a.groups, expected));
  };
  if (!IsFloating(a.x.dtype())) {
    a.Throw(fmt::format("expected a floating point dtype, got {}", a.x.Describe()));
  }
  if (a.x.shape().rank() != a.rank || a.weight.shape().rank() != a.rank) throw_unfit();
  if (a.groups < 1 || a.weight.dim(0) % a.groups != 0) {
    a.Throw(fmt::format("{} groups don't divide the {} channels of weight {}", a.groups,
                        a.weight.dim(0), a.weight.shape().ToString()));
  }
  const int64_t in = a.is_transposed ? a.weight.dim(0) : a.weight.dim(1) * a.groups;
  if (a.x.dim(1) != in) throw_unfit();
  for (int i = 2; i < a.rank; ++i) {
    if (a.weight.dim(i) < 1) throw_unfit();
  }
  if (!a.bias.defined()) return;
  RequireSameType(a.name, a.bias, a.weight);
  const int64_t out = a.is_transposed ? a.weight.dim(1) * a.groups : a.weight.dim(0);
  if (a.bias.shape() != Shape{out}) {
    a.Throw(fmt::format("bias {} doesn't fit weight {}: expected [{}]", a.bias.shape().ToString(),
                        a.weight.shape().ToString(), out));
  }
}

// The axis of the convolution of which `a` is, or is the adjoint; `extent` is x's.
ConvolutionAxis AxisOf(const Arguments& a, int64_t extent, int64_t kernel, int64_t Extent2::*side) {
  const int64_t stride = a.stride.*side, padding = a.padding.*side;
  const int64_t reach = a.dilation.*side * (kernel - 1) + 1;
  const int64_t result = a.is_transposed
                             ? (extent - 1) * stride - 2 * padding + reach + a.output_padding.*side
                             : (extent + 2 * padding - reach) / stride + 1;
  if (a.is_transposed ? extent < 1 || result < 1 : extent < 1 || extent + 2 * padding < reach) {
    a.Throw(fmt::format(
        "input {} is too small for weight {} with padding {} and dilation {}: a window of {} "
        "doesn't fit",
        a.x.shape().ToString(), a.weight.shape().ToString(), a.Text(a.padding), a.Text(a.dilation),
        reach));
  }
  const auto [in, out] = a.is_transposed ? std::pair(result, extent) : std::pair(extent, result);
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .dilation = a.dilation.*side};
}

// The convolution that `a` is, or is the adjoint of.
ConvolutionShape ShapeOf(const Arguments& a) {
  CheckOptions(a);
  CheckTensors(a);
  const int64_t first = a.weight.dim(0), second = a.weight.dim(1) * a.groups;
  const bool is_flat = a.rank == 3;
  return {.batch = a.x.dim(0),
          .in_channels = second,
          .out_channels = first,
          .groups = a.groups,
          .height =
              AxisOf(a, is_flat ? 1 : a.x.dim(2), is_flat ? 1 : a.weight.dim(2), &Extent2::height),
          .width = AxisOf(a, a.x.dim(-1), a.weight.dim(-1), &Extent2::width)};
}

Shape InputShape(const ConvolutionShape& s) {
  return {s.batch, s.in_channels, s.height.in, s.width.in};
}
Shape OutputShape(const ConvolutionShape& s) {
  return {s.batch, s.out_channels, s.height.out, s.width.out};
}

// db = sum of dy over images and pixels.
void AddBiasGradient(GradMeta& bias, const Tensor& dy) {
  const auto [place, accumulate] = bias.Target();
  kernels::SumTo(dy, place.View({place.dim(0), 1, 1}), accumulate);
}

// Of the convolution and of its adjoint: each is the other's gradient with respect to the input.
void Apply(bool is_transposed, const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
           const Tensor& bias, const Tensor& out, bool accumulate) {
  if (is_transposed) {
    kernels::ConvolutionBackwardData(shape, x, weight, bias, out.View(InputShape(shape)),
                                     accumulate);
  } else {
    kernels::ConvolutionForward(shape, x, weight, bias, out.View(OutputShape(shape)), accumulate);
  }
}

Tensor Convolve(const Arguments& a) {
  const ConvolutionShape shape = ShapeOf(a);
  const bool is_transposed = a.is_transposed;
  const Shape in = is_transposed ? OutputShape(shape) : InputShape(shape);
  const Shape out = is_transposed ? InputShape(shape) : OutputShape(shape);
  Tensor y = Tensor::Empty(a.rank == 4 ? out : Shape{out[0], out[1], out[3]}, a.x.options());
  Apply(is_transposed, shape, a.x.View(in), a.weight, a.bias, y, false);
  if (!NeedsTape({a.x, a.weight, a.bias})) return y;
  return Record(a.name, std::move(y), {a.x, a.weight, a.bias},
                [shape, is_transposed, x = SavedFor(a.weight, a.x),
                 weight = SavedFor(a.x, a.weight)](const Tensor& arriving, Node& node) {
                  const Shape in = is_transposed ? OutputShape(shape) : InputShape(shape);
                  const Shape out = is_transposed ? InputShape(shape) : OutputShape(shape);
                  const Tensor dy = arriving.View(out);
                  if (GradMeta* dx = node.input(0)) {
                    const auto [place, accumulate] = dx->Target();
                    Apply(!is_transposed, shape, dy, weight, {}, place, accumulate);
                  }
                  if (GradMeta* dw = node.input(1)) {
                    const auto [place, accumulate] = dw->Target();
                    kernels::ConvolutionBackwardWeight(shape, is_transposed ? dy : x.View(in),
                                                       is_transposed ? x.View(in) : dy, place,
                                                       accumulate);
                  }
                  if (GradMeta* db = node.input(2)) AddBiasGradient(*db, dy);
                });
}

}  // namespace

Tensor Conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  return Convolve({.name = "Conv2d",
                   .x = x,
                   .weight = weight,
                   .bias = bias,
                   .is_transposed = false,
                   .stride = options.stride,
                   .padding = options.padding,
                   .output_padding = 0,
                   .dilation = options.dilation,
                   .groups = options.groups,
                   .rank = 4});
}

Tensor ConvTranspose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvTranspose2dOptions& options) {
  return Convolve({.name = "ConvTranspose2d",
                   .x = x,
                   .weight = weight,
                   .bias = bias,
                   .is_transposed = true,
                   .stride = options.stride,
                   .padding = options.padding,
                   .output_padding = options.output_padding,
                   .dilation = options.dilation,
                   .groups = options.groups,
                   .rank = 4});
}

Tensor Conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  return Convolve({.name = "Conv1d",
                   .x = x,
                   .weight = weight,
                   .bias = bias,
                   .is_transposed = false,
                   .stride = {1, options.stride},
                   .padding = {0, options.padding},
                   .output_padding = 0,
                   .dilation = {1, options.dilation},
                   .groups = options.groups,
                   .rank = 3});
}

Tensor ConvTranspose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvTranspose1dOptions& options) {
  return Convolve({.name = "ConvTranspose1d",
                   .x = x,
                   .weight = weight,
                   .bias = bias,
                   .is_transposed = true,
                   .stride = {1, options.stride},
                   .padding = {0, options.padding},
                   .output_padding = {0, options.output_padding},
                   .dilation = {1, options.dilation},
                   .groups = options.groups,
                   .rank = 3});
}

}  // namespace ops
