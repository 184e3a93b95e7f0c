// Gradients that travel in 16 bits: half of float32's bytes.
//
//   replicated = DistributedDataParallel(model, *group, {.hook = CompressTo(DType::kBFloat16)});
//   hook = CompressTo(DType::kFloat16, PowerSgd());  // its messages are float16 then
//
// Gradients are scaled by 1 / ranks before they are rounded, so that a sum in float16 is as large
// as one gradient: 40000 on each of 4 ranks is 40000, not infinite. What exceeds 65504 in itself
// does become infinite, and what is below 6e-8, after scaling, zero; bfloat16 has float32's range.
//
// A rank sends what `inner` sends of a bucket of this dtype: (ranks - 1) / ranks times 4 bytes an
// element with the plain all-reduce.
#pragma once

#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/hooks/all_reduce.h"
#include "ops/tensor/dtype.h"

namespace ddp {

// Throws std::invalid_argument unless `dtype` is float16 or bfloat16. Buckets whose elements are
// no larger go to `inner` as they are.
CommunicationHook CompressTo(ops::DType dtype, CommunicationHook inner = AllReduceGradients);

}  // namespace ddp
