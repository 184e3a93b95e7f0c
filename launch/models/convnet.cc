#include "launch/models/convnet.h"

#include "ops/autograd/functions.h"

namespace launch {

ConvNet::ConvNet(const ImageOptions& images, ops::Generator& generator, int64_t channels)
    : c1_(images.channels, channels, 3, {.padding = 1, .generator = &generator}),
      c2_(channels, 2 * channels, 3, {.padding = 1, .generator = &generator}),
      f1_(2 * channels * (images.height / 4) * (images.width / 4), 8 * channels,
          {.generator = &generator}),
      f2_(8 * channels, images.classes, {.generator = &generator}) {
  Register("c1", c1_);
  Register("c2", c2_);
  Register("f1", f1_);
  Register("f2", f2_);
}

ops::Tensor ConvNet::Forward(const ops::Tensor& x) {
  ops::Tensor y = ops::MaxPool2d(ops::Relu(c1_.Forward(x)), 2);
  y = ops::MaxPool2d(ops::Relu(c2_.Forward(y)), 2);
  y = ops::Reshape(y, {y.dim(0), f1_.weight.dim(1)});
  return f2_.Forward(ops::Relu(f1_.Forward(y)));
}

}  // namespace launch
