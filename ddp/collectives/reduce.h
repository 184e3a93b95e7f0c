// The arithmetic of reductions: what every backend computes, so that all give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/collectives/operation.h"
#include "ops/tensor/dtype.h"

namespace ddp {

// outputs[k][i] = inputs[0][i] op inputs[1][i] op ..., in this order, for i < num_elements and each
// k. There is at least one of each. Outputs may be inputs, but don't overlap them otherwise.
// kAverage divides the sum by the number of inputs. kPremultipliedSum is a sum: the factors have
// been applied.
//
// bfloat16 and float16 are accumulated in float32 and rounded once. Sums and products of integers
// wrap; averages of integers are exact, and truncated. An average of floating point that isn't
// finite is computed again with more exponent (float32, bfloat16 and float16 in float64, float64 in
// long double), and so is infinite only if an input is. A NaN in any input stays one, for min and
// max too; which NaN isn't said.
//
// An element's result depends on its inputs only, not on where it is, on num_elements, or on the
// instruction set that the kernels use (ops/cpu/isa.h).
//
// This function and those below throw std::invalid_argument if not Supports(op, dtype).
void Reduce(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs,
            std::span<void* const> outputs, int64_t num_elements);

// A reduction that is spread over several places keeps its values in accumulators of this dtype in
// between: `dtype` itself, but float32 for sums, averages and products of bfloat16 and float16,
// float64 for averages of int32 and uint8 (exact for up to 2^21 ranks).
//
// Accumulate over all ranks in order, then Finish, gives the bits of Reduce, but for averages of
// floating point whose sum overflowed: these stay infinite or NaN, since what could be summed again
// with more exponent is elsewhere.
ops::DType AccumulatorOf(ReduceOp op, ops::DType dtype);
// Accumulators for each element: 2 for averages of int64, whose sums need more bits; else 1.
int AccumulatorsPerElement(ReduceOp op, ops::DType dtype);

// accumulators[i] = inputs[0][i] op inputs[1][i] op ...; with `go_on` what is in accumulators[i]
// comes first. Reduce puts accumulators together, by kSum for kAverage and kPremultipliedSum.
void Accumulate(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs,
                void* accumulators, bool go_on, int64_t num_elements);
// output[i] = accumulators[i], for kAverage divided by `num_ranks`, rounded to `dtype`. The output
// may be the accumulators where these are of `dtype` and one for each element.
void Finish(ReduceOp op, ops::DType dtype, const void* accumulators, int num_ranks, void* output,
            int64_t num_elements);

// output[i] = input[i] * factor, calculated in float64 and rounded to `dtype` (bfloat16 and float16
// by way of float32): what kPremultipliedSum asks of each rank first. In place or not. Throws
// std::invalid_argument for integers.
void Multiply(ops::DType dtype, double factor, const void* input, void* output,
              int64_t num_elements);

// Whether `op` is one for this dtype: bit operations for integers, premultiplied sums for floating
// point, the others for all.
bool Supports(ReduceOp op, ops::DType dtype);

}  // namespace ddp
