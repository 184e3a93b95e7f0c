#include "launch/trainer/precision.h"

#include "ops/autograd/functions.h"

namespace launch {

ops::Tensor OutputsOf(ops::nn::Module& model, const ops::Tensor& inputs, ops::DType precision) {
  const bool rounds = ops::IsFloating(inputs.dtype());
  const ops::Tensor outputs = model.Forward(rounds ? ops::Cast(inputs, precision) : inputs);
  return ops::Cast(outputs, ops::DType::kFloat32);
}

}  // namespace launch
