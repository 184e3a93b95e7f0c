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

// Which of `shape`'s dimensions `dim` is, from 0 on; negative ones count from the last. Throws
// where it has no such dimension.
int RequireDim(std::string_view function, const Shape& shape, int dim);

}  // namespace ops
