#include "launch/models/resnet.h"

#include "ops/autograd/functions.h"

namespace launch {
namespace {

ops::nn::Conv2dOptions Unbiased(int64_t stride, int64_t padding, ops::Generator& generator) {
  return {.stride = stride, .padding = padding, .bias = false, .generator = &generator};
}

}  // namespace

ResidualBlock::ResidualBlock(int64_t in_channels, int64_t out_channels, int64_t stride,
                             ops::Generator& generator)
    : c1_(in_channels, out_channels, 3, Unbiased(stride, 1, generator)),
      b1_(out_channels, {.relu = true}),
      c2_(out_channels, out_channels, 3, Unbiased(1, 1, generator)),
      b2_(out_channels) {
  Register("c1", c1_);
  Register("b1", b1_);
  Register("c2", c2_);
  Register("b2", b2_);
  if (stride == 1 && in_channels == out_channels) return;
  skip_ = std::make_unique<ops::nn::Sequential>();
  skip_->Add<ops::nn::Conv2d>(in_channels, out_channels, 1, Unbiased(stride, 0, generator));
  skip_->Add<ops::nn::BatchNorm2d>(out_channels);
  Register("skip", *skip_);
}

ops::Tensor ResidualBlock::Forward(const ops::Tensor& x) {
  const ops::Tensor skipped = skip_ == nullptr ? x : skip_->Forward(x);
  return ops::AddRelu(b2_.Forward(c2_.Forward(b1_.Forward(c1_.Forward(x)))), skipped);
}

ResNet::ResNet(const ImageOptions& images, ops::Generator& generator, int64_t channels)
    : c_(images.channels, channels, 3, Unbiased(1, 1, generator)),
      b_(channels, {.relu = true}),
      f_(2 * channels, images.classes, {.generator = &generator}) {
  r_.Add<ResidualBlock>(channels, channels, 1, generator);
  r_.Add<ResidualBlock>(channels, 2 * channels, 2, generator);
  r_.Add<ResidualBlock>(2 * channels, 2 * channels, 1, generator);
  Register("c", c_);
  Register("b", b_);
  Register("r", r_);
  Register("f", f_);
}

ops::Tensor ResNet::Forward(const ops::Tensor& x) {
  const ops::Tensor y = r_.Forward(b_.Forward(c_.Forward(x)));
  return f_.Forward(ops::Flatten(ops::AdaptiveAvgPool2d(y, 1)));
}

}  // namespace launch
