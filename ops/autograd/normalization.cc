#include "ops/autograd/normalization.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"
#include "ops/autograd/recomputation.h"

namespace ops {
namespace {

using kernels::GradientPlace;

// An undefined parameter is fine.
void RequireParameter(std::string_view function, const char* name, const Tensor& parameter,
                      const Tensor& x, const Shape& expected) {
  if (!parameter.defined()) return;
  RequireSameType(function, parameter, x);
  if (parameter.shape() == expected) return;
  throw std::invalid_argument(fmt::format("{}: {} {} doesn't fit input {}: expected {}", function,
                                          name, parameter.shape().ToString(), x.shape().ToString(),
                                          expected.ToString()));
}

// x [batch, channels, ...].
void RequireChannels(std::string_view function, const Tensor& x) {
  RequireFloating(function, x);
  if (x.shape().rank() >= 2) return;
  throw std::invalid_argument(fmt::format("{}: expected an input [batch, channels, ...], got {}",
                                          function, x.shape().ToString()));
}

Tensor EmptyStatistics(int64_t count) { return Tensor::Empty({2, count}, {DType::kFloat64}); }

GradientPlace PlaceOf(GradMeta* gradient) {
  if (gradient == nullptr) return {};
  const auto [place, accumulate] = gradient->Target();
  return {place, accumulate};
}

// For kernels that may write dx over dy.
GradientPlace PlaceOver(GradMeta* gradient, const Tensor& dy) {
  if (gradient == nullptr) return {};
  const auto [place, accumulate] = gradient->TargetOver(dy);
  return {place, accumulate};
}

// Records a way back that writes the gradients of {x, weight, bias}:
// backward(dy, dx, dweight, dbias).
template <class Backward>
Tensor RecordNorm(std::string_view name, Tensor y, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, Backward backward) {
  return Record(name, std::move(y), {x, weight, bias},
                [backward = std::move(backward)](const Tensor& dy, Node& node) {
                  const GradientPlace dweight = PlaceOf(node.input(1));
                  const GradientPlace dbias = PlaceOf(node.input(2));
                  backward(dy, PlaceOver(node.input(0), dy), dweight, dbias);
                });
}

// LayerNorm, and without `centered` RmsNorm, over the elements that `normalized` counts.
Tensor NormalizeRows(std::string_view name, const Tensor& x, const Shape& normalized,
                     const Tensor& weight, const Tensor& bias, bool centered, double epsilon) {
  RequireParameter(name, "weight", weight, x, normalized);
  RequireParameter(name, "bias", bias, x, normalized);
  const int outer = x.shape().rank() - normalized.rank();
  const Shape rows = {Shape(x.shape().dims().first(outer)).num_elements(),
                      normalized.num_elements()};
  Tensor y = Tensor::Empty(x.shape(), x.options());
  const Tensor statistics = EmptyStatistics(rows[0]);
  kernels::NormalizeRows(x.View(rows), weight, bias, centered, epsilon, y, statistics);
  if (!NeedsTape({x, weight, bias})) return y;
  return RecordNorm(name, std::move(y), x, weight, bias,
                    [x = x.View(rows), weight = Saved(weight), centered, statistics](
                        const Tensor& dy, const GradientPlace& dx, const GradientPlace& dweight,
                        const GradientPlace& dbias) {
                      kernels::NormalizeRowsBackward(x, weight, centered, statistics, dy, dx,
                                                     dweight, dbias);
                    });
}

void RequireEnough(const Tensor& x, int64_t values_a_channel) {
  if (x.dim(1) == 0 || values_a_channel >= 2) return;
  throw std::invalid_argument(
      fmt::format("BatchNorm: training needs at least 2 values a channel, got {} with input {}",
                  values_a_channel, x.shape().ToString()));
}

void RequireRunning(const Tensor& x, const Tensor& mean, const Tensor& var, bool training) {
  for (const Tensor& running : {mean, var}) {
    if (!running.defined()) {
      if (training) continue;
      throw std::invalid_argument("BatchNorm: evaluation needs running_mean and running_var");
    }
    if (IsFloating(running.dtype()) && running.shape() == Shape{x.dim(1)}) continue;
    throw std::invalid_argument(
        fmt::format("BatchNorm: running statistics {} don't fit input {}: expected [{}]",
                    running.Describe(), x.Describe(), x.dim(1)));
  }
}

int64_t ValuesPerChannel(const Tensor& x) {
  return x.num_elements() == 0 ? 0 : x.num_elements() / x.dim(1);
}

// Moments of a batch that comes in parts, each [count, means, variances]: Chan et al. 1979, in the
// order of the parts.
class JoinedMoments {
 public:
  explicit JoinedMoments(int64_t channels)
      : moments_(Tensor::Zeros({2, channels}, {DType::kFloat64})) {}

  void Add(std::span<const double> part) {
    const double count = part[0];
    if (count == 0) return;
    const int64_t channels = moments_.dim(1);
    const double share = count / (count_ + count);
    double* const means = moments_.data<double>();
    double* const variances = means + channels;
    for (int64_t c = 0; c < channels; ++c) {
      const double difference = part[1 + c] - means[c];
      means[c] += share * difference;
      variances[c] +=
          share * (part[1 + channels + c] - variances[c] + (1 - share) * difference * difference);
    }
    count_ += count;
  }

  const Tensor& moments() const { return moments_; }
  int64_t count() const { return static_cast<int64_t>(count_); }

 private:
  Tensor moments_;
  double count_ = 0;
};

// Those of the whole batch, of which x is a part.
JoinedMoments Join(const Tensor& x, StatisticsExchange& exchange) {
  const Tensor own = EmptyStatistics(x.dim(1));
  kernels::ChannelMoments(x, own);
  std::vector<double> mine = {static_cast<double>(ValuesPerChannel(x))};
  mine.insert(mine.end(), own.elements<double>().begin(), own.elements<double>().end());
  const std::vector<double> all = exchange.Gather(mine);
  JoinedMoments joined(x.dim(1));
  for (std::span<const double> rest = all; !rest.empty(); rest = rest.subspan(mine.size())) {
    joined.Add(rest.first(mine.size()));
  }
  return joined;
}

void SharedBatchNormBackward(const Tensor& x, const kernels::BatchNormParameters& parameters,
                             const Tensor& statistics, StatisticsExchange& exchange,
                             const Tensor& dy, const GradientPlace& dx,
                             const GradientPlace& dweight, const GradientPlace& dbias) {
  const Tensor sums = EmptyStatistics(x.dim(1));
  kernels::BatchNormBackwardSums(x, parameters, statistics, dy, dweight, dbias, sums);
  if (!dx.tensor.defined()) return;
  exchange.Sum(sums.elements<double>());
  kernels::BatchNormBackwardInput(x, parameters, statistics, dy, sums, dx);
}

}  // namespace

Tensor LayerNorm(const Tensor& x, int num_dims, const Tensor& weight, const Tensor& bias,
                 double epsilon) {
  RequireFloating("LayerNorm", x);
  const int rank = x.shape().rank();
  if (num_dims < 1 || num_dims > rank) {
    throw std::invalid_argument(
        fmt::format("LayerNorm: over {} dimensions of input {}, expected 1 to {}", num_dims,
                    x.shape().ToString(), rank));
  }
  return NormalizeRows("LayerNorm", x, Shape(x.shape().dims().last(num_dims)), weight, bias,
                       /*centered=*/true, epsilon);
}

Tensor RmsNorm(const Tensor& x, const Tensor& weight, double epsilon) {
  RequireFloating("RmsNorm", x);
  if (x.shape().rank() == 0) throw std::invalid_argument("RmsNorm: the input is a scalar");
  return NormalizeRows("RmsNorm", x, {x.dim(-1)}, weight, {}, /*centered=*/false, epsilon);
}

Tensor GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                 double epsilon) {
  RequireChannels("GroupNorm", x);
  if (groups < 1 || x.dim(1) % groups != 0) {
    throw std::invalid_argument(
        fmt::format("GroupNorm: {} groups don't divide the channels of input {}", groups,
                    x.shape().ToString()));
  }
  RequireParameter("GroupNorm", "weight", weight, x, {x.dim(1)});
  RequireParameter("GroupNorm", "bias", bias, x, {x.dim(1)});
  Tensor y = Tensor::Empty(x.shape(), x.options());
  const Tensor statistics = EmptyStatistics(x.dim(0) * groups);
  kernels::GroupNorm(x, groups, weight, bias, epsilon, y, statistics);
  if (!NeedsTape({x, weight, bias})) return y;
  return RecordNorm("GroupNorm", std::move(y), x, weight, bias,
                    [x = Saved(x), groups, weight = Saved(weight), statistics](
                        const Tensor& dy, const GradientPlace& dx, const GradientPlace& dweight,
                        const GradientPlace& dbias) {
                      kernels::GroupNormBackward(x, groups, weight, statistics, dy, dx, dweight,
                                                 dbias);
                    });
}

Tensor BatchNorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& running_mean, const Tensor& running_var,
                 const BatchNormOptions& options) {
  RequireChannels("BatchNorm", x);
  RequireParameter("BatchNorm", "weight", weight, x, {x.dim(1)});
  RequireParameter("BatchNorm", "bias", bias, x, {x.dim(1)});
  RequireRunning(x, running_mean, running_var, options.training);
  const bool keeps_running = options.training && IsRecomputing();  // the first run moved them
  kernels::BatchNormParameters parameters = {
      .weight = Saved(weight),
      .bias = Saved(bias),
      .running_mean = keeps_running ? Tensor() : running_mean,
      .running_var = keeps_running ? Tensor() : running_var,
      .training = options.training,
      .momentum = options.momentum,
      .epsilon = options.epsilon,
      .relu = options.relu};
  if (options.training && options.exchange != nullptr) {
    const JoinedMoments joined = Join(x, *options.exchange);
    parameters.whole_moments = joined.moments();
    parameters.whole_size = joined.count();
  }
  if (options.training) {
    RequireEnough(x, options.exchange == nullptr ? ValuesPerChannel(x) : parameters.whole_size);
  }
  Tensor y = Tensor::Empty(x.shape(), x.options());
  const Tensor statistics = EmptyStatistics(x.dim(1));
  kernels::BatchNorm(x, parameters, y, statistics);
  if (!NeedsTape({x, weight, bias})) return y;
  return RecordNorm(
      "BatchNorm", std::move(y), x, weight, bias,
      [x = Saved(x), parameters = std::move(parameters), statistics,
       exchange = options.training ? options.exchange : nullptr](
          const Tensor& dy, const GradientPlace& dx, const GradientPlace& dweight,
          const GradientPlace& dbias) {
        if (exchange == nullptr) {
          kernels::BatchNormBackward(x, parameters, statistics, dy, dx, dweight, dbias);
        } else {
          SharedBatchNormBackward(x, parameters, statistics, *exchange, dy, dx, dweight, dbias);
        }
      });
}

}  // namespace ops
