// A checkpoint that one rank has read, on all ranks.
#pragma once

#include "ddp/checkpoint/checkpoint.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

// What rank 0 gives, on all ranks; the others' `checkpoint` is not looked at. Tensors that come
// have memory of their own. Called by all ranks.
Checkpoint BroadcastCheckpoint(ProcessGroup& group, const Checkpoint& checkpoint);

}  // namespace ddp
