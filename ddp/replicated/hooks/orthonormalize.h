#pragma once

#include <cstdint>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ddp {

// Makes the rows of `vectors`, float32 [count, length], orthogonal to each other and of length 1
// (Gram and Schmidt's method, twice for each row), in place. Rows that depend on those before them
// become zeros; returns which ones. NaN stays NaN. A norm is divided by as norm + epsilon.
//
// Calculated in float64 by one thread in plain loops: the same bits on every CPU.
std::vector<int64_t> Orthonormalize(const ops::Tensor& vectors, double epsilon = 0);

}  // namespace ddp
