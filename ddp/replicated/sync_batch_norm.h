// Batch norm over the batches of all ranks, as PyTorch's SyncBatchNorm: for batches so small that
// their own statistics say little.
//
//   ConvNet model;
//   ddp::SynchronizeBatchNorm(model, *group);
//   ddp::DistributedDataParallel replicated(model, *group);
//
// In training mode each rank then normalises its batch by mean and variance of all ranks' batches,
// weighted by their sizes, of which some may be empty; running statistics are the same bits on all
// ranks. In evaluation the running statistics are used, and nothing is sent.
//
// Gradients of inputs are those of the sum of all ranks' losses. Those of weight and bias are of
// this rank's part, for DistributedDataParallel to average.
#pragma once

#include "ddp/collectives/process_group.h"
#include "ops/nn/module.h"

namespace ddp {

// For every batch norm layer of `model`. Every rank of `group` calls it. The layers communicate in
// a group of their own, which has the same ranks and the same timeout and lives as long as they do,
// so `group` is free for other operations meanwhile, and may end before.
//
// From then on all ranks run the same layers in the same order, forward and, where a layer's input
// requires a gradient, backward. Forward and Backward throw the group's CollectiveErrors: ranks
// that wait for one that failed throw, at the latest, after the timeout.
void SynchronizeBatchNorm(ops::nn::Module& model, ProcessGroup& group);

}  // namespace ddp
