#include "launch/flags/run_flags.h"

#include <absl/flags/flag.h>
#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "launch/flags/parser.h"
#include "launch/flags/signal_names.h"

ABSL_FLAG(int64_t, nproc_per_node, 1, "ranks to start on this node");

ABSL_FLAG(int64_t, max_restarts, 0, "how often all ranks are started again after a failure");
ABSL_FLAG(int64_t, max_attempts_without_progress, 3,
          "attempts in a row that come no further than those before, after which none follows");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(30),
          "what ranks get between INT, TERM or HUP and KILL to save what they have");
ABSL_FLAG(std::string, stop_signal, "USR1",
          "is passed on to the ranks, who decide what it means: save and end with 75, say");

ABSL_FLAG(std::string, log_dir, "",
          "folder for what each rank prints: rank3.r0.log, where r0 counts restarts");
ABSL_FLAG(bool, log_prefix, false, "begin each line that a rank prints with [RANK]");
ABSL_FLAG(std::string, error_file, "",
          "where to say as JSON how the job has failed; $DDP_ERROR_FILE if not given");

namespace launch {
namespace {

const FlagGroups& Groups() {
  static const FlagGroups groups = {
      {"Ranks", {"nproc_per_node"}},
      {"Failures",
       {"max_restarts", "max_attempts_without_progress", "grace", "stop_signal", "error_file"}},
      {"Logs", {"log_dir", "log_prefix"}}};
  return groups;
}

int64_t AtLeast(int64_t low, const char* name, int64_t value) {
  if (value >= low && value <= 1'000'000) return value;
  throw std::invalid_argument(
      fmt::format("--{}={}: expected a whole number from {} to 1000000", name, value, low));
}

std::chrono::milliseconds Grace() {
  const absl::Duration grace = absl::GetFlag(FLAGS_grace);
  if (grace < absl::ZeroDuration() || grace > absl::Hours(24)) {
    throw std::invalid_argument(
        fmt::format("--grace={}: expected 0s to 24h", absl::FormatDuration(grace)));
  }
  return absl::ToChronoMilliseconds(grace);
}

// As a shell would find it where the user typed the command: one with a slash is a path from there.
std::string Program(const std::string& name, const Environment& environment) {
  return name.find('/') == std::string::npos ? name : FromUsersDirectory(name, environment);
}

}  // namespace

std::string RunHelpText() {
  return "Starts PROGRAM on several ranks, with torchrun's variables:\n"
         "  bazel run //launch:run -- [flags] PROGRAM ARGUMENTS...\n\n" +
         DescribeFlags(Groups(), {});
}

RunCommandLine ParseRunCommandLine(const std::vector<std::string>& arguments,
                                   const Environment& environment) {
  const auto program = arguments.begin() + SetLeadingFlags(arguments, Groups());
  if (AsksForHelp({arguments.begin(), program})) return {.asks_for_help = true, .agent = {}};
  if (program == arguments.end()) {
    throw std::invalid_argument("no program to run: [flags] PROGRAM ARGUMENTS...; --help has more");
  }
  AgentOptions agent;
  agent.command.assign(program, arguments.end());
  agent.command[0] = Program(agent.command[0], environment);
  agent.num_ranks = AtLeast(1, "nproc_per_node", absl::GetFlag(FLAGS_nproc_per_node));
  agent.restarts.max_restarts = AtLeast(0, "max_restarts", absl::GetFlag(FLAGS_max_restarts));
  agent.restarts.max_attempts_without_progress = AtLeast(
      1, "max_attempts_without_progress", absl::GetFlag(FLAGS_max_attempts_without_progress));
  agent.grace = Grace();
  agent.stop_signal = ParseStopSignal(absl::GetFlag(FLAGS_stop_signal));
  agent.prefix_lines = absl::GetFlag(FLAGS_log_prefix);
  agent.log_dir = FromUsersDirectory(absl::GetFlag(FLAGS_log_dir), environment);
  agent.error_file = FromUsersDirectory(absl::GetFlag(FLAGS_error_file), environment);
  if (agent.error_file.empty()) agent.error_file = environment("DDP_ERROR_FILE").value_or("");
  return {.asks_for_help = false, .agent = agent};
}

}  // namespace launch
