// Models in 16 bits among data and losses in float32.
#pragma once

#include "ops/nn/module.h"
#include "ops/tensor/dtype.h"
#include "ops/tensor/tensor.h"

namespace launch {

// The model's outputs in float32, for losses and comparisons; differentiable. `precision` is that
// of the model's parameters, which inputs other than integers are rounded to.
ops::Tensor OutputsOf(ops::nn::Module& model, const ops::Tensor& inputs, ops::DType precision);

}  // namespace launch
