// Agent: starts the ranks of this machine, watches them, and ends them all when one fails.
//
//   AgentResult result = RunAgent({.command = {"./train", "--epochs=3"}, .num_ranks = 2,
//                                  .master_port = store.port()});
//   if (result.exit_code != 0) std::cerr << result.reason << "\n";  // "rank 1 failed: boom"
//
// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and
// two variables of ours: DDP_STORE_HOSTED=1 (the store at that address is there already, rank 0
// need not host it) and DDP_REPORT_FD (where to write a RankReport when it fails).
//
// The limit of open descriptors (`ulimit -n`) is raised to what so many ranks need, for the agent's
// process and for theirs.
//
// What ranks print goes through the agent, which passes on whole lines, as fast as they are read; a
// terminal, however, is rank 0's own, so that it can see that it has one. Rank 0 keeps standard
// input, the others read /dev/null.
//
// The first failure ends all: SIGTERM to the others at once, SIGKILL after a grace period. So do
// Ctrl-C, SIGTERM and SIGHUP to the agent, and what nobody has read by the end of that period is
// dropped; a second signal doesn't wait. When the agent dies, however
// it dies, the kernel kills its ranks.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "ddp/store/meeting_point.h"

namespace launch {

struct AgentOptions {
  // What to run, with arguments; `executable` is the file where that isn't command[0].
  std::vector<std::string> command;
  std::string executable;
  int num_ranks = 2;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  // Further variables for the ranks.
  std::map<std::string, std::string> environment;
  // Between SIGTERM and SIGKILL.
  std::chrono::milliseconds grace = std::chrono::seconds(2);
};

struct AgentResult {
  // 0: all ranks ended with 0. Otherwise that of the rank that failed first, with 128+n for signal
  // n, or 128+n when the agent itself got signal n before any rank failed.
  int exit_code = 0;
  // Empty, or one line: "rank 1 failed: killed by signal 9 (Killed)".
  std::string reason;
};

// Returns when all ranks have ended. Throws std::invalid_argument for fewer than 1 rank or no
// command, std::system_error when the ranks can't be started.
AgentResult RunAgent(const AgentOptions& options);

// The variables by which agent and ranks of this library know each other.
using ddp::kStoreHostedVariable;
inline constexpr char kReportFdVariable[] = "DDP_REPORT_FD";

}  // namespace launch
