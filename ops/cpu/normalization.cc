#include "ops/cpu/normalization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "ops/cpu/isa.h"
#include "ops/cpu/normalization_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements that are worth a hand-over to another thread

const NormalizationKernels& Kernels(DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(
        fmt::format("normalization: expected a floating point dtype, got {}", Name(dtype)));
  }
  const auto& kernels = ForIsa(baseline::kNormalizationKernels, avx2::kNormalizationKernels,
                               avx512::kNormalizationKernels);
  return kernels[static_cast<int>(dtype)];
}

// How many items of `size` elements make a chunk.
int64_t PerChunk(int64_t size) { return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, size)); }

// The elements of a parameter as float64, or a constant in the place of an undefined one.
class Values {
 public:
  Values(const Tensor& tensor, double otherwise) : tensor_(tensor), otherwise_(otherwise) {}

  double operator[](int64_t i) const {
    if (!tensor_.defined()) return otherwise_;
    return Dispatch(tensor_.dtype(), [&]<class T>() -> double {
      const T value = tensor_.data<T>()[i];
      if constexpr (std::is_class_v<T>) {
        return static_cast<float>(value);
      } else {
        return static_cast<double>(value);
      }
    });
  }

 private:
  const Tensor& tensor_;
  double otherwise_;
};

void Set(const Tensor& tensor, int64_t i, double value) {
  Dispatch(tensor.dtype(), [&]<class T>() {
    if constexpr (std::is_class_v<T>) {
      tensor.data<T>()[i] = T(static_cast<float>(value));
    } else {
      tensor.data<T>()[i] = static_cast<T>(value);
    }
  });
}

void Put(const GradientPlace& place, int64_t i, double value) {
  if (!place.tensor.defined()) return;
  Set(place.tensor, i, place.accumulate ? Values(place.tensor, 0)[i] + value : value);
}

// A weight or bias that a kernel can read.
Tensor Filled(const Tensor& parameter, double otherwise, const Tensor& x, int64_t width) {
  return parameter.defined() ? parameter : Tensor::Full({width}, otherwise, x.options());
}

// The rows that share a pair of sums of weight gradients: few pairs, as they are added up by one
// thread.
int64_t RowsPerChunk(int64_t rows, int64_t width) {
  constexpr int64_t kMaxChunks = 16;
  return std::max(PerChunk(width), (rows + kMaxChunks - 1) / kMaxChunks);
}

// [batch, channels, inner] of x and what points into it.
struct Channels {
  explicit Channels(const Tensor& x)
      : batch(x.dim(0)),
        channels(x.dim(1)),
        inner(x.num_elements() == 0 ? 0 : x.num_elements() / (batch * channels)),
        element(SizeOf(x.dtype())) {}

  // The runs of one channel over the batch.
  Runs OfChannel() const { return {batch, channels * inner, inner}; }
  int64_t ChannelOffset(int64_t channel) const { return channel * inner * element; }

  int64_t batch, channels, inner, element;
};

std::byte* At(const Tensor& tensor, int64_t offset) {
  return tensor.defined() ? tensor.raw_data() + offset : nullptr;
}

double InverseDeviation(double variance, double epsilon) {
  return 1 / std::sqrt(variance + epsilon);
}

void MoveRunning(const Tensor& running, int64_t channel, double momentum, double value) {
  if (!running.defined()) return;
  const double before = Values(running, 0)[channel];
  Set(running, channel, (1 - momentum) * before + momentum * value);
}

}  // namespace

void NormalizeRows(const Tensor& x, const Tensor& weight, const Tensor& bias, bool centered,
                   double epsilon, const Tensor& y, const Tensor& statistics) {
  const auto kernel = Kernels(x.dtype()).normalize_rows;
  const int64_t rows = x.dim(0), width = x.dim(1), row_bytes = width * SizeOf(x.dtype());
  const Tensor scale = Filled(weight, 1, x, width), offset = Filled(bias, 0, x, width);
  double* const means = statistics.data<double>();
  ParallelFor(rows, PerChunk(width), [&](int64_t begin, int64_t end) {
    kernel({.x = x.raw_data() + begin * row_bytes,
            .weight = scale.raw_data(),
            .bias = offset.raw_data(),
            .rows = end - begin,
            .width = width,
            .centered = centered,
            .epsilon = epsilon,
            .y = y.raw_data() + begin * row_bytes,
            .means = means + begin,
            .inverse_deviations = means + rows + begin});
  });
}

void NormalizeRowsBackward(const Tensor& x, const Tensor& weight, bool centered,
                           const Tensor& statistics, const Tensor& dy, const GradientPlace& dx,
                           const GradientPlace& dweight, const GradientPlace& dbias) {
  const auto kernel = Kernels(x.dtype()).normalize_rows_backward;
  const int64_t rows = x.dim(0), width = x.dim(1), row_bytes = width * SizeOf(x.dtype());
  const Tensor scale = Filled(weight, 1, x, width);
  const int64_t rows_per_chunk = RowsPerChunk(rows, width);
  const int64_t chunks = (rows + rows_per_chunk - 1) / rows_per_chunk;
  const bool wants_sums = dweight.tensor.defined() || dbias.tensor.defined();
  const Tensor sums = Tensor::Zeros({wants_sums ? chunks : 0, 2, width}, {DType::kFloat64});
  const double* const means = statistics.data<double>();
  ParallelFor(rows, rows_per_chunk, [&](int64_t begin, int64_t end) {
    double* const own = sums.data<double>() + begin / rows_per_chunk * 2 * width;
    kernel({.x = x.raw_data() + begin * row_bytes,
            .weight = scale.raw_data(),
            .dy = dy.raw_data() + begin * row_bytes,
            .rows = end - begin,
            .width = width,
            .centered = centered,
            .means = means + begin,
            .inverse_deviations = means + rows + begin,
            .dx = At(dx.tensor, begin * row_bytes),
            .accumulate = dx.accumulate,
            .weight_sums = wants_sums ? own : nullptr,
            .bias_sums = wants_sums ? own + width : nullptr});
  });
  for (int64_t i = 0; wants_sums && i < width; ++i) {
    double weight_sum = 0, bias_sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const double* const pair = sums.data<double>() + chunk * 2 * width;
      weight_sum += pair[i];
      bias_sum += pair[width + i];
    }
    Put(dweight, i, weight_sum);
    Put(dbias, i, bias_sum);
  }
}

void GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
               double epsilon, const Tensor& y, const Tensor& statistics) {
  const NormalizationKernels& kernels = Kernels(x.dtype());
  if (x.num_elements() == 0) return;
  const Channels shape(x);
  const Values weights(weight, 1), biases(bias, 0);
  const int64_t in_group = shape.channels / groups, size = in_group * shape.inner;
  const Runs group = {1, 0, size}, channel = {1, 0, shape.inner};
  double* const means = statistics.data<double>();
  double* const inverse_deviations = means + shape.batch * groups;
  ParallelFor(shape.batch * groups, PerChunk(size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i * size * shape.element;
      const Moments moments = kernels.moments(x.raw_data() + offset, group);
      means[i] = moments.mean;
      inverse_deviations[i] = InverseDeviation(moments.variance, epsilon);
      for (int64_t j = 0; j < in_group; ++j) {
        const int64_t c = i % groups * in_group + j;
        const int64_t channel_offset = offset + shape.ChannelOffset(j);
        kernels.normalize(x.raw_data() + channel_offset, channel,
                          {means[i], weights[c] * inverse_deviations[i], biases[c]},
                          y.raw_data() + channel_offset);
      }
    }
  });
}

// As in LayerNorm: with g = dy weight and z = (x - mean) / deviation,
// dx = (g - E[g] - z E[g z]) / deviation, and weights that are one number a channel.
void GroupNormBackward(const Tensor& x, int64_t groups, const Tensor& weight,
                       const Tensor& statistics, const Tensor& dy, const GradientPlace& dx,
                       const GradientPlace& dweight, const GradientPlace& dbias) {
  const NormalizationKernels& kernels = Kernels(x.dtype());
  const Channels shape(x);
  const Values weights(weight, 1);
  const int64_t in_group = shape.channels / groups, size = in_group * shape.inner;
  const Runs channel = {1, 0, shape.inner};
  const double* const means = statistics.data<double>();
  const double* const inverse_deviations = means + shape.batch * groups;
  const Tensor sums_tensor = Tensor::Zeros({shape.batch * shape.channels, 2}, {DType::kFloat64});
  auto* const sums = reinterpret_cast<ChannelSums*>(sums_tensor.data<double>());
  ParallelFor(
      size == 0 ? 0 : shape.batch * groups, PerChunk(size), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const double inverse = inverse_deviations[i],
                       per_element = inverse / static_cast<double>(size);
          const ChannelAffine affine = {means[i], inverse, 0};
          ChannelSums group = {0, 0};
          for (int64_t j = 0; j < in_group; ++j) {
            const int64_t offset = i * size * shape.element + shape.ChannelOffset(j);
            const ChannelSums own =
                kernels.sums(x.raw_data() + offset, dy.raw_data() + offset, channel, affine);
            const double w = weights[i % groups * in_group + j];
            group.dy += w * own.dy;
            group.dy_x += w * own.dy_x;
            sums[i * in_group + j] = {own.dy, own.dy_x * inverse};
          }
          for (int64_t j = 0; j < in_group && dx.tensor.defined(); ++j) {
            const int64_t offset = i * size * shape.element + shape.ChannelOffset(j);
            kernels.backward(x.raw_data() + offset, dy.raw_data() + offset, channel, affine,
                             {.dy_factor = weights[i % groups * in_group + j] * inverse,
                              .x_factor = -group.dy_x * per_element * inverse * inverse,
                              .constant = -group.dy * per_element},
                             dx.tensor.raw_data() + offset, dx.accumulate);
          }
        }
      });
  for (int64_t c = 0; c < shape.channels; ++c) {
    ChannelSums total = {0, 0};
    for (int64_t b = 0; b < shape.batch; ++b) {
      total.dy += sums[b * shape.channels + c].dy;
      total.dy_x += sums[b * shape.channels + c].dy_x;
    }
    Put(dweight, c, total.dy_x);
    Put(dbias, c, total.dy);
  }
}

void ChannelMoments(const Tensor& x, const Tensor& moments) {
  if (x.num_elements() == 0) return moments.FillZero();
  const auto kernel = Kernels(x.dtype()).moments;
  const Channels shape(x);
  double* const means = moments.data<double>();
  ParallelFor(shape.channels, PerChunk(shape.batch * shape.inner), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const Moments of_channel = kernel(x.raw_data() + shape.ChannelOffset(c), shape.OfChannel());
      means[c] = of_channel.mean;
      means[shape.channels + c] = of_channel.variance;
    }
  });
}

void BatchNorm(const Tensor& x, const BatchNormParameters& parameters, const Tensor& y,
               const Tensor& statistics) {
  const NormalizationKernels& kernels = Kernels(x.dtype());
  const Channels shape(x);
  const Values weights(parameters.weight, 1), biases(parameters.bias, 0);
  const Values running_means(parameters.running_mean, 0), running_vars(parameters.running_var, 1);
  const Runs runs = shape.OfChannel();
  const bool is_part = parameters.whole_moments.defined();
  const double* const whole = is_part ? parameters.whole_moments.data<double>() : nullptr;
  const auto size =
      static_cast<double>(is_part ? parameters.whole_size : shape.batch * shape.inner);
  double* const means = statistics.data<double>();
  double* const inverse_deviations = means + shape.channels;
  ParallelFor(shape.channels, PerChunk(shape.batch * shape.inner), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const void* const channel = x.raw_data() + shape.ChannelOffset(c);
      Moments moments = {running_means[c], running_vars[c]};
      if (parameters.training) {
        moments =
            is_part ? Moments{whole[c], whole[shape.channels + c]} : kernels.moments(channel, runs);
        MoveRunning(parameters.running_mean, c, parameters.momentum, moments.mean);
        MoveRunning(parameters.running_var, c, parameters.momentum,
                    moments.variance * size / (size - 1));
      }
      means[c] = moments.mean;
      inverse_deviations[c] = InverseDeviation(moments.variance, parameters.epsilon);
      kernels.normalize(channel, runs,
                        {means[c], weights[c] * inverse_deviations[c], biases[c], parameters.relu},
                        y.raw_data() + shape.ChannelOffset(c));
    }
  });
}

namespace {

// The way back of one channel after the other. With the batch's statistics, and
// z = (x - mean) / deviation, dx = (dy - E[dy] - z E[dy z]) weight / deviation; with others,
// dy weight / deviation.
class BatchNormWayBack {
 public:
  BatchNormWayBack(const Tensor& x, const BatchNormParameters& parameters, const Tensor& statistics,
                   const Tensor& dy)
      : kernels_(Kernels(x.dtype())),
        shape_(x),
        x_(x),
        dy_(dy),
        parameters_(parameters),
        means_(statistics.data<double>()),
        inverse_deviations_(means_ + shape_.channels),
        size_(static_cast<double>(parameters.whole_moments.defined()
                                      ? parameters.whole_size
                                      : shape_.batch * shape_.inner)) {}

  // Calls f(channel) for each, on threads.
  template <class F>
  void ForEachChannel(F f) const {
    ParallelFor(shape_.channels, PerChunk(shape_.batch * shape_.inner),
                [&](int64_t begin, int64_t end) {
                  for (int64_t c = begin; c < end; ++c) f(c);
                });
  }

  // The channel's sums, and from them the gradients of its weight and bias.
  ChannelSums Sums(int64_t c, const GradientPlace& dweight, const GradientPlace& dbias) const {
    const int64_t offset = shape_.ChannelOffset(c);
    const ChannelSums sums = kernels_.sums(x_.raw_data() + offset, dy_.raw_data() + offset,
                                           shape_.OfChannel(), AffineOf(c));
    Put(dweight, c, sums.dy_x * inverse_deviations_[c]);
    Put(dbias, c, sums.dy);
    return sums;
  }

  void WriteInput(int64_t c, const ChannelSums& sums, const GradientPlace& dx) const {
    const int64_t offset = shape_.ChannelOffset(c);
    const ChannelAffine affine = AffineOf(c);
    const double inverse = inverse_deviations_[c];
    ChannelGradient gradient = {.dy_factor = affine.scale, .x_factor = 0, .constant = 0};
    if (parameters_.training) {
      const double per_element = affine.scale / size_;
      gradient.x_factor = -sums.dy_x * inverse * inverse * per_element;
      gradient.constant = -sums.dy * per_element;
    }
    kernels_.backward(x_.raw_data() + offset, dy_.raw_data() + offset, shape_.OfChannel(), affine,
                      gradient, dx.tensor.raw_data() + offset, dx.accumulate);
  }

 private:
  ChannelAffine AffineOf(int64_t c) const {
    return {means_[c], Values(parameters_.weight, 1)[c] * inverse_deviations_[c],
            Values(parameters_.bias, 0)[c], parameters_.relu};
  }

  const NormalizationKernels& kernels_;
  const Channels shape_;
  const Tensor& x_;
  const Tensor& dy_;
  const BatchNormParameters& parameters_;
  const double* const means_;
  const double* const inverse_deviations_;
  const double size_;
};

}  // namespace

void BatchNormBackward(const Tensor& x, const BatchNormParameters& parameters,
                       const Tensor& statistics, const Tensor& dy, const GradientPlace& dx,
                       const GradientPlace& dweight, const GradientPlace& dbias) {
  const BatchNormWayBack back(x, parameters, statistics, dy);
  back.ForEachChannel([&](int64_t c) {
    const ChannelSums sums = back.Sums(c, dweight, dbias);
    if (dx.tensor.defined()) back.WriteInput(c, sums, dx);
  });
}

void BatchNormBackwardSums(const Tensor& x, const BatchNormParameters& parameters,
                           const Tensor& statistics, const Tensor& dy, const GradientPlace& dweight,
                           const GradientPlace& dbias, const Tensor& sums) {
  const BatchNormWayBack back(x, parameters, statistics, dy);
  double* const values = sums.data<double>();
  back.ForEachChannel([&](int64_t c) {
    const ChannelSums of_channel = back.Sums(c, dweight, dbias);
    values[c] = of_channel.dy;
    values[x.dim(1) + c] = of_channel.dy_x;
  });
}

void BatchNormBackwardInput(const Tensor& x, const BatchNormParameters& parameters,
                            const Tensor& statistics, const Tensor& dy, const Tensor& sums,
                            const GradientPlace& dx) {
  const BatchNormWayBack back(x, parameters, statistics, dy);
  const double* const values = sums.data<double>();
  back.ForEachChannel([&](int64_t c) {
    back.WriteInput(c, {values[c], values[x.dim(1) + c]}, dx);
  });
}

}  // namespace ops::cpu
