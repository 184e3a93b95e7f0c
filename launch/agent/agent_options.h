// What RunAgent (agent.h) is to do.
#pragma once

#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "launch/agent/restart_policy.h"

namespace launch {

struct AgentOptions {
  // What to run, with arguments; `executable` is the file where that isn't command[0].
  std::vector<std::string> command;
  std::string executable;
  // Of this machine.
  int num_ranks = 2;
  // Further variables for the ranks.
  std::map<std::string, std::string> environment;
  RestartLimits restarts;
  // Passed on to the ranks, whatever else it would mean: what it means is theirs to say.
  int stop_signal = SIGUSR1;
  // From any other signal to the agent that ends it until SIGKILL to the ranks.
  std::chrono::milliseconds grace = std::chrono::seconds(30);

  // Each line that a rank prints begins with "[RANK] ".
  bool prefix_lines = false;
  // A folder for what each rank prints, in addition to this process's output: rank3.r0.log, where
  // r0 counts restarts. Made if need be, its files are added to; "": none.
  std::string log_dir;
  // A file that says how the job has failed (error_file.h); "": none.
  std::string error_file;
};

}  // namespace launch
