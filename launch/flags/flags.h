// The trainer's flags, all of them, in one place. flags.cc defines and groups them, but for those
// in launcher.h; nothing else reads a flag: the rest of the program sees TrainOptions.
#pragma once

#include <string>
#include <vector>

#include "launch/flags/launcher.h"
#include "launch/topology/topology.h"
#include "launch/trainer/options.h"

namespace launch {

struct CommandLine {
  int num_ranks = 2;     // --nproc_per_node
  int max_restarts = 0;  // --max_restarts
  LauncherFlags launcher;
  TrainOptions train;
};

// The flags in groups, with what they mean and their defaults.
std::string HelpText();

// What the arguments say. Relative paths start where the user typed the command, which `bazel run`
// tells in BUILD_WORKING_DIRECTORY. Throws std::invalid_argument with one line that says what is
// wrong and what would be right: an unknown flag or name lists the known ones.
CommandLine ParseCommandLine(const std::vector<std::string>& arguments,
                             const Environment& environment);

}  // namespace launch
