// Pooling layers. Shapes: ops/autograd/pooling.h.
#pragma once

#include <cstdint>

#include "ops/autograd/pooling.h"
#include "ops/nn/module.h"

namespace ops::nn {

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Extent2 kernel, const Pool2dOptions& options = {})
      : kernel_(kernel), options_(options) {}
  Tensor Forward(const Tensor& x) override;

 private:
  Extent2 kernel_;
  Pool2dOptions options_;
};

}  // namespace ops::nn
