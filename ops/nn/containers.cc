#include "ops/nn/containers.h"

#include <string>

namespace ops::nn {

Tensor Sequential::Forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& layer : layers_) y = layer->Forward(y);
  return y;
}

void Sequential::Append(std::unique_ptr<Module> layer) {
  Register(std::to_string(layers_.size()), *layer);
  layers_.push_back(std::move(layer));
}

}  // namespace ops::nn
