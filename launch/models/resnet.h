// A small residual network (He et al. 2016): a stem of one convolution and a block of `channels`,
// then two blocks of twice as many at half the extent. Parameters: c, b (stem), r.0, r.1, r.2
// (blocks, each c1, b1, c2, b2, and skip.0, skip.1 where the shape changes) and f.
#pragma once

#include <cstdint>
#include <memory>

#include "launch/models/model_options.h"
#include "ops/nn/containers.h"
#include "ops/nn/convolution.h"
#include "ops/nn/linear.h"
#include "ops/nn/module.h"
#include "ops/nn/normalization.h"
#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace launch {

// relu(b2(c2(relu(b1(c1(x))))) + skip(x)), where skip is x itself or, where the shape changes, a
// 1x1 convolution and batch norm.
class ResidualBlock : public ops::nn::Module {
 public:
  ResidualBlock(int64_t in_channels, int64_t out_channels, int64_t stride,
                ops::Generator& generator);
  ops::Tensor Forward(const ops::Tensor& x) override;

 private:
  ops::nn::Conv2d c1_;
  ops::nn::BatchNorm2d b1_;
  ops::nn::Conv2d c2_;
  ops::nn::BatchNorm2d b2_;
  std::unique_ptr<ops::nn::Sequential> skip_;  // null: x itself
};

class ResNet : public ops::nn::Module {
 public:
  ResNet(const ImageOptions& images, ops::Generator& generator, int64_t channels = 16);

  // [batch, channels, height, width] -> [batch, classes].
  ops::Tensor Forward(const ops::Tensor& x) override;

 private:
  ops::nn::Conv2d c_;
  ops::nn::BatchNorm2d b_;
  ops::nn::Sequential r_;
  ops::nn::Linear f_;
};

}  // namespace launch
