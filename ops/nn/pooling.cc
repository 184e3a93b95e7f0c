#include "ops/nn/pooling.h"

#include "ops/nn/layer_errors.h"

namespace ops::nn {

Tensor MaxPool2d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::MaxPool2d(x, kernel_, options_); });
}

Tensor MaxPool1d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::MaxPool1d(x, kernel_, options_); });
}

Tensor AvgPool2d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::AvgPool2d(x, kernel_, options_, count_padding_); });
}

Tensor AvgPool1d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::AvgPool1d(x, kernel_, options_, count_padding_); });
}

Tensor AdaptiveAvgPool2d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::AdaptiveAvgPool2d(x, output_); });
}

Tensor AdaptiveAvgPool1d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::AdaptiveAvgPool1d(x, output_); });
}

Tensor AdaptiveMaxPool2d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::AdaptiveMaxPool2d(x, output_); });
}

Tensor AdaptiveMaxPool1d::Forward(const Tensor& x) {
  return NamingLayer(*this, [&] { return ops::AdaptiveMaxPool1d(x, output_); });
}

}  // namespace ops::nn
