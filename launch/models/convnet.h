// A small convolutional network: two convolutions of 3x3 with ReLU and 2x2 pooling, two linear
// layers. Parameters: c1, c2, f1, f2, weight and bias each.
#pragma once

#include <cstdint>

#include "ops/nn/convolution.h"
#include "ops/nn/linear.h"
#include "ops/nn/module.h"
#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace launch {

// Images that a model sees, and the classes it tells apart.
struct ImageOptions {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  int64_t classes = 10;
};

class ConvNet : public ops::nn::Module {
 public:
  ConvNet(const ImageOptions& images, ops::Generator& generator);

  // [batch, channels, height, width] -> [batch, classes].
  ops::Tensor Forward(const ops::Tensor& x) override;

 private:
  ops::nn::Conv2d c1_, c2_;
  ops::nn::Linear f1_, f2_;
};

}  // namespace launch
