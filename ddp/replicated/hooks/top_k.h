// Only the largest gradients travel, with error feedback: the rest waits and adds up until it is
// large too (Lin et al., "Deep Gradient Compression", ICLR 2018, without momentum correction).
//
//   replicated = DistributedDataParallel(model, *group, {.hook = TopK(0.01)});
//
// Of each bucket of n elements, a rank gives the k = ceil(ratio * n) with the largest absolute
// value (among equals, those that come first) to all (all-gather), as pairs of index and value.
// They are added up in float32, in rank order: the same bits everywhere. NaN counts as the largest
// value of all, then infinity: they travel first, and are part of the sum.
//
// Bytes that a rank sends: (ranks - 1) * k * (4 + bytes of an element). That is less than an
// all-reduce of float32 while ratio < 1 / ranks. It keeps 4 n bytes. Buckets may be of any floating
// point dtype, and have at most 2^31 - 1 elements.
#pragma once

#include "ddp/replicated/communication_hook.h"

namespace ddp {

// Throws std::invalid_argument unless 0 < ratio <= 1.
CommunicationHook TopK(double ratio);

}  // namespace ddp
