#include "ops/nn/convolution.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "ops/nn/init.h"
#include "ops/nn/layer_errors.h"

namespace ops::nn {
namespace {

void RequirePositive(const char* layer, const char* name, int64_t value) {
  if (value >= 1) return;
  throw std::invalid_argument(fmt::format("{}: {} is {}, expected at least 1", layer, name, value));
}

void CheckLayer(const char* layer, int64_t in_channels, int64_t out_channels, Extent2 kernel,
                int64_t groups) {
  RequirePositive(layer, "in_channels", in_channels);
  RequirePositive(layer, "out_channels", out_channels);
  RequirePositive(layer, "the kernel's height", kernel.height);
  RequirePositive(layer, "the kernel's width", kernel.width);
  RequirePositive(layer, "groups", groups);
  if (in_channels % groups == 0 && out_channels % groups == 0) return;
  throw std::invalid_argument(
      fmt::format("{}: {} groups don't divide both {} in_channels and {} out_channels", layer,
                  groups, in_channels, out_channels));
}

// What weight and bias get, from the options of any of the layers.
template <class Options>
void Draw(const Shape& weight_shape, int64_t out_channels, const Options& options, Tensor& weight,
          Tensor& bias) {
  Generator& generator =
      options.generator != nullptr ? *options.generator : Generator::ForThisThread();
  const int64_t fan_in = weight_shape.DropFirst().num_elements();
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  weight = Tensor::Empty(weight_shape, {options.dtype, options.device});
  init::Uniform(weight, -bound, bound, generator);
  if (!options.bias) return;
  bias = Tensor::Empty({out_channels}, {options.dtype, options.device});
  init::Uniform(bias, -bound, bound, generator);
}

}  // namespace

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
               const Conv1dOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
  CheckLayer("Conv1d", in_channels, out_channels, kernel, options.groups);
  Draw({out_channels, in_channels / options.groups, kernel}, out_channels, options, weight, bias);
  RegisterParameter("weight", weight);
  if (options.bias) RegisterParameter("bias", bias);
}

Tensor Conv1d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::Conv1d(x, weight, bias, options_); });
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Extent2 kernel,
               const Conv2dOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
  CheckLayer("Conv2d", in_channels, out_channels, kernel, options.groups);
  Draw({out_channels, in_channels / options.groups, kernel.height, kernel.width}, out_channels,
       options, weight, bias);
  RegisterParameter("weight", weight);
  if (options.bias) RegisterParameter("bias", bias);
}

Tensor Conv2d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::Conv2d(x, weight, bias, options_); });
}

ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
                                 const ConvTranspose1dOptions& options)
    : options_{options.stride, options.padding, options.output_padding, options.dilation,
               options.groups} {
  CheckLayer("ConvTranspose1d", in_channels, out_channels, kernel, options.groups);
  Draw({in_channels, out_channels / options.groups, kernel}, out_channels, options, weight, bias);
  RegisterParameter("weight", weight);
  if (options.bias) RegisterParameter("bias", bias);
}

Tensor ConvTranspose1d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::ConvTranspose1d(x, weight, bias, options_); });
}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Extent2 kernel,
                                 const ConvTranspose2dOptions& options)
    : options_{options.stride, options.padding, options.output_padding, options.dilation,
               options.groups} {
  CheckLayer("ConvTranspose2d", in_channels, out_channels, kernel, options.groups);
  Draw({in_channels, out_channels / options.groups, kernel.height, kernel.width}, out_channels,
       options, weight, bias);
  RegisterParameter("weight", weight);
  if (options.bias) RegisterParameter("bias", bias);
}

Tensor ConvTranspose2d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::ConvTranspose2d(x, weight, bias, options_); });
}

}  // namespace ops::nn
