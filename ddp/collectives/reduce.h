// The arithmetic of reductions: what every backend computes, so that all give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/collectives/operation.h"
#include "ops/tensor/dtype.h"

namespace ddp {

// outputs[k][i] = inputs[0][i] op inputs[1][i] op ..., in this order, for i < num_elements and each
// k. Outputs may be inputs. kAverage divides the sum by the number of inputs.
//
// bfloat16 and float16 are accumulated in float32 and rounded once; small integers in larger ones,
// so that an average doesn't overflow on its way. Averages of float32 that come out non-finite are
// computed again in float64. Sums and products that don't fit wrap. A NaN in any input stays one,
// for min and max too. kPremultipliedSum is a sum: the factors have been applied.
void Reduce(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs,
            std::span<void* const> outputs, int64_t num_elements);

// A reduction that is spread over several places keeps its values in this dtype in between.
ops::DType AccumulatorOf(ReduceOp op, ops::DType dtype);

// accumulators[i] = inputs[0][i] op inputs[1][i] op ...; with `go_on` what is in accumulators[i]
// comes first.
void Accumulate(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs,
                void* accumulators, bool go_on, int64_t num_elements);
// accumulators[i] = accumulators[i] op others[i].
void Combine(ReduceOp op, ops::DType dtype, void* accumulators, const void* others,
             int64_t num_elements);
// output[i] = accumulators[i], for kAverage divided by `num_ranks`, rounded to `dtype`.
void Finish(ReduceOp op, ops::DType dtype, const void* accumulators, int num_ranks, void* output,
            int64_t num_elements);

// data[i] *= factor, rounded to `dtype`: what kPremultipliedSum asks of each rank first.
void Multiply(ops::DType dtype, double factor, const void* input, void* output,
              int64_t num_elements);

// Whether `op` is one for this dtype: bit operations for integers, premultiplied sums for floating
// point, the others for all.
bool Supports(ReduceOp op, ops::DType dtype);

}  // namespace ddp
