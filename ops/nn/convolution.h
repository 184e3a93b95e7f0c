// Convolutional layers. Weights and biases are drawn from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the
// weight first, with fan_in = weight.dim(1) times the kernel's extent, as PyTorch does. Shapes:
// ops/autograd/convolution.h. A wrong input throws std::invalid_argument with the layer's path.
#pragma once

#include <cstdint>

#include "ops/autograd/convolution.h"
#include "ops/nn/module.h"
#include "ops/tensor/random.h"

namespace ops::nn {

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

}  // namespace ops::nn
