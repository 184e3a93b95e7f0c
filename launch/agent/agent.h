// Agent: starts the ranks of this machine, watches them, ends them all when one fails, and starts
// them again where that is allowed.
//
//   AgentResult result = RunAgent({.command = {"./train", "--epochs=3"}, .num_ranks = 2});
//   if (result.exit_code != 0) std::cerr << result.reason << "\n";  // "rank 1 failed: boom"
//
// Each rank gets torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK
// and GROUP_RANK, GROUP_WORLD_SIZE (the number of nodes), MASTER_ADDR and MASTER_PORT (a free port
// of rank 0's node), TORCHELASTIC_RUN_ID and TORCHELASTIC_RESTART_COUNT; and some of ours:
// DDP_STORE_HOSTED (the address of a store that is there already, which programs of this library
// meet at), DDP_RUN_ID and DDP_RESTART_COUNT, DDP_AGENT (by which what it starts is known as the
// agent's) and DDP_REPORT_FD (where to write what report.h describes).
//
// The limit of open descriptors (`ulimit -n`) is raised to what so many ranks need, for the agent's
// process and for theirs.
//
// What ranks print goes through the agent, which passes on whole lines, as fast as they are read; a
// terminal, however, is rank 0's own, so that it can see that it has one. The first rank of the
// node keeps standard input, the others read /dev/null.
//
// The first failure ends all: SIGTERM to the others at once, SIGKILL after two seconds. Signals to
// the agent are passed on. SIGINT, SIGTERM and SIGHUP also start the grace period, in which ranks
// may save what they have; SIGKILL follows, at once after a second such signal. SIGUSR1, SIGUSR2
// and AgentOptions::stop_signal mean what the ranks make of them. What nobody has read two seconds
// after the last rank has ended on a signal is dropped.
//
// When the last rank has ended, so does whatever they had started, in whatever session. When the
// agent dies, however it dies, the kernel kills its ranks, and a guardian what they had started.
#pragma once

#include <string>

#include "launch/agent/agent_options.h"

namespace launch {

struct AgentResult {
  // 0: all ranks ended with 0. 75: they ask to be started again in a new job. Otherwise that of the
  // rank that failed first, with 128+n for signal n, or 128+n when the agent itself got signal n
  // before any rank failed. 1 when it is other nodes that the job fails for.
  int exit_code = 0;
  // Empty, or one line: "rank 1 failed: killed by signal 9 (Killed)".
  std::string reason;
};

// Returns when all ranks have ended; that other nodes don't come, or are lost, is a result, too.
// Throws std::invalid_argument for fewer than 1 rank or no command, std::system_error when the
// ranks can't be started.
AgentResult RunAgent(const AgentOptions& options);

}  // namespace launch
