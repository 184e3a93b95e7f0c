// Train: a whole training run, as one rank of it.
//
//   Summary summary = Train({.model = "mlp", .data = {"digits"}}, rank, world_size, store,
//                           signals);
//
// Every rank has the whole model and its part of each batch (ddp/replicated). Ranks r of W take
// positions r, r + W, ... of the same shuffled order, so W ranks of batch size B take the steps
// that one rank of batch size W B would.
//
// With --checkpoint_dir it goes on from the newest checkpoint there: total steps, schedule, data
// and random numbers are those of one run. What is told (losses, rates, time) is of the part since
// then.
//
// Losses are exchanged when they are reported, not at every step. The same options give the same
// losses, to the last bit, for any number of threads and any timing.
#pragma once

#include <memory>

#include "ddp/store/store.h"
#include "launch/trainer/options.h"
#include "launch/trainer/rank_signals.h"
#include "launch/trainer/summary.h"

namespace launch {

// Returns when all ranks are done. Rank 0 prints progress and writes the files that `options` ask
// for. Throws what went wrong; the other ranks then fail with the reason. Throws StoppedEarly
// (launch/rank/rank.h), on all ranks, where `signals` have asked one of them to stop: a checkpoint
// has been written. Where a rank waits for data in vain then, all end their process here, with
// kRequeueExitCode: the thread that reads the data can't be ended otherwise.
Summary Train(const TrainOptions& options, int rank, int world_size,
              const std::shared_ptr<ddp::Store>& store, RankSignals& signals);

}  // namespace launch
