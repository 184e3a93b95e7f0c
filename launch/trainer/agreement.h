// Whether all ranks were started alike. Where a user starts each rank by hand, one with another
// learning rate or batch size would train on, wrongly; here it is an error.
#pragma once

#include "ddp/collectives/process_group.h"
#include "launch/trainer/options.h"

namespace launch {

// To be called by all ranks. Throws ddp::MismatchError on every rank when SharedOptions differ,
// naming the flag and both values.
void CheckAllRanksAgree(ddp::ProcessGroup& group, const TrainOptions& options);

}  // namespace launch
