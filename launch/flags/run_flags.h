// The flags of //launch:run, all of them, in one place: they come before the program to run.
#pragma once

#include <string>
#include <vector>

#include "launch/agent/agent_options.h"
#include "launch/topology/topology.h"

namespace launch {

struct RunCommandLine {
  bool asks_for_help = false;  // then nothing else counts
  AgentOptions agent;
};

std::string RunHelpText();

// "[flags] PROGRAM ARGUMENTS...". Relative paths of logs start where the user typed the command,
// which `bazel run` tells in BUILD_WORKING_DIRECTORY, and so does the program's. Throws
// std::invalid_argument with one line that says what is wrong and what would be right.
RunCommandLine ParseRunCommandLine(const std::vector<std::string>& arguments,
                                   const Environment& environment);

}  // namespace launch
