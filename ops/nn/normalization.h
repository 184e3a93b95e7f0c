// Normalisation layers. Formulas and shapes: ops/autograd/normalization.h. Weights start at 1,
// biases at 0. An input that doesn't fit throws std::invalid_argument with the layer's path.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "ops/autograd/normalization.h"
#include "ops/nn/module.h"

namespace ops::nn {

struct NormOptions {
  double epsilon = 1e-5;
  bool affine = true;  // has "weight" and "bias"
  bool bias = true;    // has "bias", where affine
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
};

// Over the last dimensions, which have the extents `normalized`.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized, const NormOptions& options = {});
  explicit LayerNorm(int64_t width, const NormOptions& options = {})
      : LayerNorm(Shape{width}, options) {}
  Tensor Forward(const Tensor& x) override;

  Tensor weight, bias;

 private:
  Shape normalized_;
  double epsilon_;
};

// Over the last dimension; "weight" alone, whatever options.bias says.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(int64_t width, const NormOptions& options = {.epsilon = 1e-6});
  Tensor Forward(const Tensor& x) override;

  Tensor weight;

 private:
  Shape normalized_;
  double epsilon_;
};

// [batch, channels, ...], over groups of channels.
class GroupNorm : public Module {
 public:
  // Throws std::invalid_argument unless `groups` divides `channels`.
  GroupNorm(int64_t groups, int64_t channels, const NormOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight, bias;

 private:
  int64_t groups_;
  int64_t channels_;
  double epsilon_;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  // has "running_mean", "running_var", "num_batches_tracked"
  bool relu = false;                // relu of the output, in the same pass
  DType dtype = DType::kFloat32;    // 16-bit layers have running statistics in float32
  Device device = Device::Cpu();
};

// What BatchNorm1d and BatchNorm2d share. In training the batch's statistics normalise, and move
// the running ones, once where a Checkpoint computes twice; in evaluation these normalise, where
// the layer has them.
class BatchNorm : public Module {
 public:
  Tensor Forward(const Tensor& x) override;

  // In training mode, statistics are from now on those of the batch that all of `exchange` hold, of
  // which inputs are parts: ops/autograd/normalization.h. Null: of inputs alone, as at first.
  void ShareStatistics(std::shared_ptr<StatisticsExchange> exchange) {
    exchange_ = std::move(exchange);
  }

  Tensor weight, bias;
  Tensor running_mean, running_var;
  Tensor num_batches_tracked;  // int64 scalar

 protected:
  BatchNorm(int64_t channels, const BatchNormOptions& options);

 private:
  // Throws std::invalid_argument with the layer's path for an input of another rank.
  virtual void RequireFit(const Tensor& x) const = 0;

  const BatchNormOptions options_;
  std::shared_ptr<StatisticsExchange> exchange_;
};

// [batch, channels] or [batch, channels, length].
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm(channels, options), channels_(channels) {}

 private:
  void RequireFit(const Tensor& x) const override;

  int64_t channels_;
};

// [batch, channels, height, width].
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t channels, const BatchNormOptions& options = {})
      : BatchNorm(channels, options), channels_(channels) {}

 private:
  void RequireFit(const Tensor& x) const override;

  int64_t channels_;
};

}  // namespace ops::nn
