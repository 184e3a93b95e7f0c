// The arithmetic of all-reduce: what every backend computes, so that all give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/collectives/process_group.h"
#include "ops/tensor/dtype.h"

namespace ddp {

// output[i] = inputs[0][i] op inputs[1][i] op ..., in this order, for i < num_elements. `output`
// may be one of the inputs. kAverage divides the sum by the number of inputs.
//
// bfloat16 and float16 are accumulated in float32 and rounded once; small integers in larger ones,
// so that an average doesn't overflow on its way. Sums that don't fit wrap. A NaN in any input
// stays one, for min and max too.
void Reduce(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs, void* output,
            int64_t num_elements);

}  // namespace ddp
