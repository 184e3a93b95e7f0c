// Normalisation layers. Formulas and shapes: ops/autograd/normalization.h. Weights start at 1,
// biases at 0.
#pragma once

#include <cstdint>

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

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  // has "running_mean", "running_var", "num_batches_tracked"
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
};

// [batch, channels, h, w]. BatchNorm1d takes [batch, channels] and [batch, channels, length].
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(int64_t channels, const BatchNormOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight, bias;
  Tensor running_mean, running_var;
  Tensor num_batches_tracked;  // int64 scalar

 private:
  BatchNormOptions options_;
};

}  // namespace ops::nn
