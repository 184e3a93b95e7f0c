// What differentiable functions ask of their arguments. Each throws std::invalid_argument that
// begins with the function's name.
#pragma once

#include <string_view>

#include "ops/autograd/node.h"
#include "ops/tensor/tensor.h"

namespace ops {

void RequireDefined(std::string_view function, InputList inputs);
// Defined, of a floating point dtype.
void RequireFloating(std::string_view function, const Tensor& x);
// Both defined, of one dtype, on one device.
void RequireSameType(std::string_view function, const Tensor& a, const Tensor& b);

}  // namespace ops
