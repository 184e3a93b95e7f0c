// RunRank: one rank of a job, from meeting the others to its exit code.
//
// The ranks meet at a store. Where the agent started this process, the agent holds it; elsewhere
// rank 0 does, at the first port of its identity's rendezvous, until the others are done.
//
// An exception that leaves the body is this rank's failure: the reason goes to the agent, which
// prints one line for the whole job, or to standard error where there is no agent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

#include "ddp/duration.h"
#include "ddp/store/store.h"
#include "launch/topology/topology.h"

namespace launch {

// Thrown by a body that was asked to end early, and that another run can go on with: no failure,
// but the rank ends with kRequeueExitCode.
class StoppedEarly : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a rank does. `store` connects all ranks of the job.
using RankBody = std::function<void(int rank, int world_size, std::shared_ptr<ddp::Store> store)>;

// Tells the agent, where there is one, that a restart would go on from this step, that of the last
// checkpoint that is complete: programs that come no further are not started again for ever
// (agent/restart_policy.h).
void ReportProgress(int64_t step);

// Runs `body` and returns the process's exit code: 0, kRequeueExitCode, or 1 when it threw.
// `timeout` is the store's, and limits how long the ranks wait for each other to start.
int RunRank(const Identity& identity, const RankBody& body, ddp::Duration timeout);

}  // namespace launch
