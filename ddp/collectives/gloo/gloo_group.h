// The Gloo backend: CPU tensors over TCP, between any hosts.
//
//   gloo_group   the ProcessGroup: queue, sequence numbers, failures
//   operations   what travels between whom; direct_all_reduce is the large all-reduce
//   call         what a rank is about to do; call_exchange compares it with the peers'
//   mesh         messages with deadlines, over Gloo's point-to-point operations
//   rendezvous   from a store to connections
//
// Gloo's own collectives aren't used: they end the process when sizes differ, sum in an order that
// depends on the rank, and can't be interrupted.
#pragma once

#include <memory>

#include "ddp/collectives/process_group.h"

namespace ddp {

// For InitProcessGroup, which has checked the options.
std::unique_ptr<ProcessGroup> MakeGlooGroup(const ProcessGroupOptions& options);

}  // namespace ddp
