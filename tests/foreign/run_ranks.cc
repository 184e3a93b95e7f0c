// `run_ranks N COMMAND...`: runs a program on N ranks of this machine.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "launch/agent/agent.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: run_ranks N COMMAND...\n");
    return 2;
  }
  launch::AgentOptions options;
  options.command = {argv + 2, argv + argc};
  options.num_ranks = std::atoi(argv[1]);
  const launch::AgentResult result = launch::RunAgent(options);
  if (result.exit_code != 0) fmt::print(stderr, "{}\n", result.reason);
  return result.exit_code;
}
