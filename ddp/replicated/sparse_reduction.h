// Sparse gradients (ops/autograd/grad.h) of all ranks, added up: what buckets are for dense ones.
// Ranks touch different rows, so ids and rows travel by all-gather, and every rank adds them up.
#pragma once

#include <span>

#include "ddp/collectives/process_group.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// Makes the gradient of each parameter, tables [count, width], the sum over the ranks times
// `scale`: sparse and coalesced, the same bits on every rank, rows of one id added up in rank
// order. Only sparse gradients count, and none of a rank that has nothing to give (`gives` is
// false). A parameter to which no rank gives anything has none afterwards. All ranks call it, with
// the same parameters in the same order. Costs memory, and traffic, for the rows of all ranks
// together.
void ReduceSparseGradients(ProcessGroup& group, std::span<const ops::Tensor> parameters,
                           double scale, bool gives);

}  // namespace ddp
