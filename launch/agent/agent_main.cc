// agent_main N COMMAND...: runs COMMAND on N ranks, so that tests can watch an agent from outside.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "launch/agent/agent.h"

int main(int argc, char** argv) {
  try {
    launch::AgentOptions options;
    options.num_ranks = std::atoi(argv[1]);
    options.command.assign(argv + 2, argv + argc);
    const launch::AgentResult result = launch::RunAgent(options);
    if (!result.reason.empty()) fmt::print(stderr, "{}\n", result.reason);
    return result.exit_code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
