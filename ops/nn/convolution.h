// Convolutional layers. Weights and biases are drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the
// weight first, with fan_in = weight.dim(1) times the kernel's extent, as PyTorch does. Shapes:
// ops/autograd/convolution.h. A constructor throws std::invalid_argument for channels, kernels or
// groups that make no layer; a wrong input throws it with the layer's path.
#pragma once

#include <cstdint>

#include "ops/autograd/convolution.h"
#include "ops/nn/module.h"
#include "ops/tensor/random.h"

namespace ops::nn {

struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  Generator* generator = nullptr;  // null: Generator::ForThisThread()
};

//   nn::Conv1d conv{80, 256, 3, {.padding = 1}};
class Conv1d : public Module {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
         const Conv1dOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight;  // [out_channels, in_channels / groups, kernel]
  Tensor bias;    // [out_channels]

 private:
  const ops::Conv1dOptions options_;
};

struct Conv2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  Generator* generator = nullptr;  // null: Generator::ForThisThread()
};

//   nn::Conv2d conv{16, 32, 3, {.stride = 2, .padding = 1, .bias = false}};
class Conv2d : public Module {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, Extent2 kernel,
         const Conv2dOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight;  // [out_channels, in_channels / groups, kernel height, kernel width]
  Tensor bias;    // [out_channels]

 private:
  const ops::Conv2dOptions options_;
};

struct ConvTranspose1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t output_padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  Generator* generator = nullptr;  // null: Generator::ForThisThread()
};

class ConvTranspose1d : public Module {
 public:
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
                  const ConvTranspose1dOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight;  // [in_channels, out_channels / groups, kernel]
  Tensor bias;    // [out_channels]

 private:
  const ops::ConvTranspose1dOptions options_;
};

struct ConvTranspose2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 output_padding = 0;
  Extent2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  Generator* generator = nullptr;  // null: Generator::ForThisThread()
};

//   nn::ConvTranspose2d upsample{32, 16, 4, {.stride = 2, .padding = 1}};
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Extent2 kernel,
                  const ConvTranspose2dOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight;  // [in_channels, out_channels / groups, kernel height, kernel width]
  Tensor bias;    // [out_channels]

 private:
  const ops::ConvTranspose2dOptions options_;
};

}  // namespace ops::nn
