// RunRank: one rank of a job, from meeting the others to its exit code.
//
// The ranks meet at a store. Where the agent started this process, the agent holds it; elsewhere
// rank 0 does, at the first port of its identity's rendezvous, until the others are done.
//
// An exception that leaves the body is this rank's failure: the reason goes to the agent, which
// prints one line for the whole job, or to standard error where there is no agent.
#pragma once

#include <functional>
#include <memory>

#include "ddp/duration.h"
#include "ddp/store/store.h"
#include "launch/topology/topology.h"

namespace launch {

// What a rank does. `store` connects all ranks of the job.
using RankBody = std::function<void(int rank, int world_size, std::shared_ptr<ddp::Store> store)>;

// Runs `body` and returns the process's exit code: 0, or 1 when it threw. `timeout` is the store's,
// and limits how long the ranks wait for each other to start.
int RunRank(const Identity& identity, const RankBody& body, ddp::Duration timeout);

}  // namespace launch
