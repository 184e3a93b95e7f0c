// Rows of tables on the CPU. Shapes and dtypes are the caller's to check.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// out[i] = table[ids[i]]: ids [n] (int64), table [count, width] and out [n, width] of any dtype.
// Throws std::invalid_argument, with position and value, for an id outside [0, count).
void GatherRows(const Tensor& ids, const Tensor& table, const Tensor& out);

// dtable[k] = the sum of dy[i] over all i with ids[i] = k, in the order of i, rounded once; of a
// floating point dtype. Adds to dtable where `accumulate`, and then leaves other rows alone. The
// row `padding_id` (negative: none) gets no part. The ids are those of a GatherRows.
void GatherRowsBackward(const Tensor& ids, int64_t padding_id, const Tensor& dy,
                        const Tensor& dtable, bool accumulate);

}  // namespace ops::cpu
