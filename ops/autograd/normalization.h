// Normalisation. Weights and biases may be undefined: then 1 and 0. Statistics are
// calculated and kept in float64, whatever the dtype. NaN and infinity make NaN of all that is
// normalised with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops {

// (x - mean) / sqrt(variance + epsilon) weight + bias, with mean and biased variance over the
// `num_dims` last dimensions; weight and bias have their shape. Ba et al. 2016.
Tensor LayerNorm(const Tensor& x, int num_dims, const Tensor& weight, const Tensor& bias,
                 double epsilon = 1e-5);

// x / sqrt(mean(x^2) + epsilon) weight over the last dimension. Zhang and Sennrich 2019.
Tensor RmsNorm(const Tensor& x, const Tensor& weight, double epsilon = 1e-6);

// x [batch, channels, ...]: mean and variance of each example over each of `groups` groups of
// channels; weight, bias [channels]. Wu and He 2018.
Tensor GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                 double epsilon = 1e-5);

// Those who hold the rest of a batch, of which each normalises its part by the statistics of the
// whole. All call the same functions in the same order, with as many values.
class StatisticsExchange {
 public:
  virtual ~StatisticsExchange() = default;
  // What each holder gave, one after the other: the same bits, in the same order, for all.
  virtual std::vector<double> Gather(std::span<const double> mine) = 0;
  // Puts the sums over all holders into `values`: the same bits for all.
  virtual void Sum(std::span<double> values) = 0;
};

// x [batch, channels, ...]: mean and variance of each channel over batch and the rest (training),
// or the running ones. Ioffe and Szegedy 2015.
struct BatchNormOptions {
  bool training = true;
  // running = (1 - momentum) running + momentum batch's; the variance that enters is the unbiased
  // one, as in PyTorch. 1 / (number of batches) for a cumulative average.
  double momentum = 0.1;
  double epsilon = 1e-5;
  // relu(the normalised values), in the same pass and for no more memory.
  bool relu = false;
  // In training: x, which may be empty, is a part of the batch that all of these hold. One Gather
  // in the forward pass, of 2 channels + 1 values; one Sum in the backward pass of 2 channels,
  // where x requires a gradient (of the sum of all holders' losses). Gradients of weight and bias
  // are those of this part. Null: x is the batch.
  std::shared_ptr<StatisticsExchange> exchange = nullptr;
};
// running_mean and running_var [channels] are read without `training` and updated with it, where
// they are defined; of any floating dtype; a recomputation (recomputation.h) leaves them. Throws
// std::invalid_argument in training for fewer than 2 values a channel, counted over the whole
// batch: then on all who hold a part of it. Running statistics stay as they were when an exchange
// throws.
Tensor BatchNorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Tensor& running_mean, const Tensor& running_var,
                 const BatchNormOptions& options = {});

}  // namespace ops
