// Gradients that travel in 8 bits, with error feedback: a quarter of float32's bytes.
//
//   replicated = DistributedDataParallel(model, *group, {.hook = QuantizeTo8Bits()});
//
// Each 256 elements share a scale, the largest of their absolute values / 127; an element is a
// multiple of it from -127 to 127. Each rank gets the others' values of its share of the bucket
// (all-to-all), adds them up in float32, in rank order, and gives the sum, in 8 bits again, to all
// (all-gather): the same bits everywhere. What either rounding loses is added at the next step, so
// that an error doesn't last; in one step, an element is off by at most half a scale for each rank
// and half the sum's.
//
// An element that isn't finite on some rank is NaN afterwards, on all; its neighbours are not.
//
// Bytes that a rank sends for n elements: 2 (ranks - 1) / ranks * (n + 4 n / 256). It keeps
// 4 n (1 + 1 / ranks) bytes. Buckets may be of any floating point dtype; sums are float32.
#pragma once

#include "ddp/replicated/communication_hook.h"

namespace ddp {

CommunicationHook QuantizeTo8Bits();

}  // namespace ddp
