#include "ops/nn/normalization.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ops/autograd/recomputation.h"

namespace ops::nn {
namespace {

[[noreturn]] void ThrowUnfit(std::string_view layer, const Module& module, const Tensor& x,
                             std::string_view expected) {
  throw std::invalid_argument(fmt::format("{} '{}': input {} doesn't fit: expected {}", layer,
                                          module.Path(), x.Describe(), expected));
}

// [batch, channels, ...] with a rank in [least, most].
bool HasChannels(const Tensor& x, int64_t channels, int least, int most) {
  return x.defined() && x.shape().rank() >= least && x.shape().rank() <= most &&
         x.dim(1) == channels;
}

void RequireLast(std::string_view layer, const Module& module, const Tensor& x,
                 const Shape& normalized) {
  const int rank = normalized.rank();
  if (x.defined() && x.shape().rank() >= rank &&
      std::ranges::equal(x.shape().dims().last(rank), normalized.dims())) {
    return;
  }
  ThrowUnfit(layer, module, x, fmt::format("[..., {}]", fmt::join(normalized.dims(), ", ")));
}

DType StatisticsType(DType dtype) { return SizeOf(dtype) == 2 ? DType::kFloat32 : dtype; }

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized, const NormOptions& options)
    : normalized_(normalized), epsilon_(options.epsilon) {
  if (!options.affine) return;
  weight = Tensor::Full(normalized, 1, {options.dtype, options.device});
  RegisterParameter("weight", weight);
  if (!options.bias) return;
  bias = Tensor::Zeros(normalized, {options.dtype, options.device});
  RegisterParameter("bias", bias);
}

Tensor LayerNorm::Forward(const Tensor& x) {
  RequireLast("LayerNorm", *this, x, normalized_);
  return ops::LayerNorm(x, normalized_.rank(), weight, bias, epsilon_);
}

RmsNorm::RmsNorm(int64_t width, const NormOptions& options)
    : normalized_({width}), epsilon_(options.epsilon) {
  if (!options.affine) return;
  weight = Tensor::Full({width}, 1, {options.dtype, options.device});
  RegisterParameter("weight", weight);
}

Tensor RmsNorm::Forward(const Tensor& x) {
  RequireLast("RmsNorm", *this, x, normalized_);
  return ops::RmsNorm(x, weight, epsilon_);
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const NormOptions& options)
    : groups_(groups), channels_(channels), epsilon_(options.epsilon) {
  if (groups < 1 || channels % groups != 0) {
    throw std::invalid_argument(
        fmt::format("GroupNorm: {} groups don't divide {} channels", groups, channels));
  }
  if (!options.affine) return;
  weight = Tensor::Full({channels}, 1, {options.dtype, options.device});
  RegisterParameter("weight", weight);
  if (!options.bias) return;
  bias = Tensor::Zeros({channels}, {options.dtype, options.device});
  RegisterParameter("bias", bias);
}

Tensor GroupNorm::Forward(const Tensor& x) {
  if (!HasChannels(x, channels_, 2, Shape::kMaxRank)) {
    ThrowUnfit("GroupNorm", *this, x, fmt::format("[batch, {}, ...]", channels_));
  }
  return ops::GroupNorm(x, groups_, weight, bias, epsilon_);
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options) : options_(options) {
  if (options.affine) {
    weight = Tensor::Full({channels}, 1, {options.dtype, options.device});
    bias = Tensor::Zeros({channels}, {options.dtype, options.device});
    RegisterParameter("weight", weight);
    RegisterParameter("bias", bias);
  }
  if (!options.track_running_stats) return;
  const TensorOptions statistics = {StatisticsType(options.dtype), options.device};
  running_mean = Tensor::Zeros({channels}, statistics);
  running_var = Tensor::Full({channels}, 1, statistics);
  num_batches_tracked = Tensor::Zeros({}, {DType::kInt64, options.device});
  RegisterBuffer("running_mean", running_mean);
  RegisterBuffer("running_var", running_var);
  RegisterBuffer("num_batches_tracked", num_batches_tracked);
}

Tensor BatchNorm::Forward(const Tensor& x) {
  RequireFit(x);
  Tensor y = ops::BatchNorm(x, weight, bias, running_mean, running_var,
                            {.training = training() || !options_.track_running_stats,
                             .momentum = options_.momentum,
                             .epsilon = options_.epsilon,
                             .relu = options_.relu,
                             .exchange = training() ? exchange_ : nullptr});
  if (training() && options_.track_running_stats && !IsRecomputing())
    ++*num_batches_tracked.data<int64_t>();
  return y;
}

void BatchNorm1d::RequireFit(const Tensor& x) const {
  if (HasChannels(x, channels_, 2, 3)) return;
  ThrowUnfit("BatchNorm1d", *this, x,
             fmt::format("[batch, {0}] or [batch, {0}, length]", channels_));
}

void BatchNorm2d::RequireFit(const Tensor& x) const {
  if (HasChannels(x, channels_, 4, 4)) return;
  ThrowUnfit("BatchNorm2d", *this, x, fmt::format("[batch, {}, height, width]", channels_));
}

}  // namespace ops::nn
