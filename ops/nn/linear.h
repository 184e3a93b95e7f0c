// The linear layer.
#pragma once

#include <cstdint>

#include "ops/nn/module.h"
#include "ops/tensor/random.h"

namespace ops::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  // Draws the initial values; null: Generator::ForThisThread().
  Generator* generator = nullptr;
};

// y = x W^T + b: x [..., in_features] -> [..., out_features]; "weight" [out_features, in_features],
// "bias" [out_features], both drawn from U(-1/sqrt(in), 1/sqrt(in)), the weight first. A wrong
// input throws std::invalid_argument with the layer's path and both shapes.
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, const LinearOptions& options = {});
  Tensor Forward(const Tensor& x) override;

  Tensor weight, bias;

 private:
  [[noreturn]] void ThrowUnfit(const Tensor& x) const;
};

}  // namespace ops::nn
