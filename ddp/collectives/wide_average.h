// Averages whose sum overflows though their result doesn't, where a reduction is spread over
// several places: sums of floating point with more exponent bits.
#pragma once

#include <cstdint>

#include "ddp/collectives/operation.h"

namespace ddp {

// Whether all elements, of floating point, are numbers and not infinite.
bool IsFinite(const Buffer& floats);

// Bytes of a sum: of a double, or of a long double for float64.
int64_t WideBytes(ops::DType dtype);
// sums[i] = input[i], or sums[i] + input[i] with `go_on`.
void AccumulateWide(ops::DType dtype, const void* input, void* sums, bool go_on,
                    int64_t num_elements);
// Where output[i] isn't finite it becomes sums[i] / num_ranks; the rest stays, as in Reduce.
void FinishWide(ops::DType dtype, const void* sums, int num_ranks, void* output,
                int64_t num_elements);

}  // namespace ddp
