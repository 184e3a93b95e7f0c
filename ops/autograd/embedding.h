// Rows of a table by their numbers.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops {

// ids [...] (int64), table [count, width] -> [..., width]. Gradients of equal ids are added up in
// the order of the ids, whatever the threads. Throws std::invalid_argument, with position and
// value, for an id outside [0, count). The row `padding_id` (negative: none) gets no gradient.
//
// With `sparse`, a table that is a leaf gets a sparse gradient (grad.h), of the rows that the ids
// name: for large tables of which a step touches little. Its cost doesn't depend on `count`.
Tensor Embedding(const Tensor& ids, const Tensor& table, int64_t padding_id = -1,
                 bool sparse = false);

}  // namespace ops
