// Starts a program on several ranks, on this node and others; what torchrun is to Python.
//
//   bazel run //launch:run -- --nproc_per_node=4 --max_restarts=3 PROGRAM ARGUMENTS...
//   bazel run //launch:run -- --help
#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <vector>

#include "launch/agent/agent.h"
#include "launch/agent/terminal.h"
#include "launch/flags/parser.h"
#include "launch/flags/run_flags.h"
#include "launch/topology/topology.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  launch::AgentOptions options;
  try {
    const launch::RunCommandLine command_line =
        launch::ParseRunCommandLine(arguments, launch::ProcessEnvironment());
    if (command_line.asks_for_help) {
      fmt::print("{}", launch::RunHelpText());
      return 0;
    }
    options = command_line.agent;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
  try {
    const launch::AgentResult result = launch::RunAgent(options);
    if (!result.reason.empty()) {
      fmt::print(stderr, "{}{}\n", launch::LineStart(STDERR_FILENO), result.reason);
    }
    return result.exit_code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
