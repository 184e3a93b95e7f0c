// Pooling layers. Shapes: ops/autograd/pooling.h. A wrong input throws std::invalid_argument with
// the layer's path.
#pragma once

#include <cstdint>

#include "ops/autograd/pooling.h"
#include "ops/nn/module.h"

namespace ops::nn {

//   nn::MaxPool2d pool{2};
//   nn::MaxPool2d stem{3, {.stride = 2, .padding = 1}};
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Extent2 kernel, const Pool2dOptions& options = {})
      : kernel_(kernel), options_(options) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const Extent2 kernel_;
  const Pool2dOptions options_;
};

class MaxPool1d : public Module {
 public:
  explicit MaxPool1d(int64_t kernel, const Pool1dOptions& options = {})
      : kernel_(kernel), options_(options) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const int64_t kernel_;
  const Pool1dOptions options_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Extent2 kernel, const Pool2dOptions& options = {}, bool count_padding = true)
      : kernel_(kernel), options_(options), count_padding_(count_padding) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const Extent2 kernel_;
  const Pool2dOptions options_;
  const bool count_padding_;
};

class AvgPool1d : public Module {
 public:
  explicit AvgPool1d(int64_t kernel, const Pool1dOptions& options = {}, bool count_padding = true)
      : kernel_(kernel), options_(options), count_padding_(count_padding) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const int64_t kernel_;
  const Pool1dOptions options_;
  const bool count_padding_;
};

// AdaptiveAvgPool2d(1) is the mean of each plane.
class AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Extent2 output) : output_(output) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const Extent2 output_;
};

class AdaptiveAvgPool1d : public Module {
 public:
  explicit AdaptiveAvgPool1d(int64_t output) : output_(output) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const int64_t output_;
};

class AdaptiveMaxPool2d : public Module {
 public:
  explicit AdaptiveMaxPool2d(Extent2 output) : output_(output) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const Extent2 output_;
};

class AdaptiveMaxPool1d : public Module {
 public:
  explicit AdaptiveMaxPool1d(int64_t output) : output_(output) {}
  Tensor Forward(const Tensor& x) override;

 private:
  const int64_t output_;
};

}  // namespace ops::nn
