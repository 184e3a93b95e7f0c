// Averages whose sum overflows though their result doesn't, in a chain of ranks.
#pragma once

#include "ddp/collectives/messages/chain_reduction.h"
#include "ddp/collectives/operation.h"

namespace ddp {

// Whether all elements are numbers and not infinite.
bool IsFinite(const Buffer& floats);

// An average with more exponent bits, of floating point elements. On the last rank it replaces what
// isn't finite in the output and leaves the rest alone, as Reduce does.
ChainArithmetic WideAverage(ops::DType dtype, int num_ranks);

}  // namespace ddp
