// Spawn: runs a function on several ranks, each a process of its own.
//
//   void Train(int rank, int world_size, std::shared_ptr<ddp::Store> store) { ... }
//
//   int main() { return launch::Spawn(Train, {.num_ranks = 4}); }
//
// It starts this same program again, with the same arguments, once per rank (a process with threads
// can't be forked safely, and libraries have threads before main begins). So what main does before
// Spawn happens in every process, and what follows it in the launcher alone: a rank ends inside
// Spawn.
//
// Where another launcher has started this process as one rank (srun, torchrun and its kind, by
// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: launch/topology), Spawn runs the function as that
// rank, and starts nothing.
//
// The first rank that fails (throws, crashes, is killed) ends all: the last line on standard error
// names it and the reason. Ctrl-C ends all, too, and no rank outlives the launcher.
#pragma once

#include <csignal>

#include "ddp/duration.h"
#include "launch/rank/rank.h"
#include "launch/topology/topology.h"

namespace launch {

struct SpawnOptions {
  int num_ranks = 2;
  // How often all ranks are started again after a failure (agent/restart_policy.h).
  int max_restarts = 0;
  // Passed on to the ranks when the launcher gets it; what it means is theirs to say.
  int stop_signal = SIGUSR1;
  // Whose word to take for being a rank already; kNone: start ranks whatever is set.
  Launcher launcher = Launcher::kAuto;
  // The ranks that the job must have, whoever started them; 0: any number.
  int expected_world_size = 0;
  // Of the store: how long ranks wait for each other there.
  ddp::Duration timeout = ddp::kDefaultTimeout;
};

// Returns the exit code for main: 0 when every rank's was 0; otherwise that of the rank that failed
// first (1 for an exception, 128+n for signal n); kRequeueExitCode where all that failed did so by
// StoppedEarly.
int Spawn(const RankBody& body, const SpawnOptions& options = {});

}  // namespace launch
