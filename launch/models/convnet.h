// A small convolutional network: two convolutions of 3x3 with ReLU and 2x2 pooling, to `channels`
// and twice as many, then two linear layers with 8 times as many between them. Parameters: c1, c2,
// f1, f2, weight and bias each.
#pragma once

#include <cstdint>

#include "launch/models/model_options.h"
#include "ops/nn/convolution.h"
#include "ops/nn/linear.h"
#include "ops/nn/module.h"
#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace launch {

class ConvNet : public ops::nn::Module {
 public:
  ConvNet(const ImageOptions& images, ops::Generator& generator, int64_t channels = 16);

  // [batch, channels, height, width] -> [batch, classes].
  ops::Tensor Forward(const ops::Tensor& x) override;

 private:
  ops::nn::Conv2d c1_, c2_;
  ops::nn::Linear f1_, f2_;
};

}  // namespace launch
