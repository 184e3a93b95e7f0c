#include "launch/spawn.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "launch/agent/agent.h"
#include "launch/agent/terminal.h"
#include "launch/topology/topology.h"

namespace launch {
namespace {

std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// The ranks split their work themselves; threads that BLAS starts would only take time and memory.
std::map<std::string, std::string> SingleThreadedLibraries() {
  std::map<std::string, std::string> variables;
  for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (!ProcessEnvironment()(name)) variables.emplace(name, "1");
  }
  return variables;
}

// Once a machine.
void PrintWarnings(const Identity& identity) {
  if (identity.local_rank.value_or(0) != 0) return;
  for (const std::string& warning : identity.warnings) {
    fmt::print(stderr, "warning: {}\n", warning);
  }
}

AgentResult StartRanks(const SpawnOptions& options) {
  return RunAgent({.command = OwnArguments(),
                   .executable = std::filesystem::read_symlink("/proc/self/exe"),
                   .num_ranks = options.num_ranks,
                   .environment = SingleThreadedLibraries(),
                   .restarts = {.max_restarts = options.max_restarts},
                   .stop_signal = options.stop_signal,
                   .error_file = ProcessEnvironment()("DDP_ERROR_FILE").value_or("")});
}

}  // namespace

int Spawn(const RankBody& body, const SpawnOptions& options) {
  try {
    const Identity identity = IdentityFrom(OwnSurroundings(), options.launcher);
    PrintWarnings(identity);
    if (identity.launcher != Launcher::kNone) {
      CheckWorldSize(identity.world_size, options.expected_world_size, identity.why);
      std::exit(RunRank(identity, body, options.timeout));
    }
    CheckWorldSize(options.num_ranks, options.expected_world_size, "all on this machine");
    const AgentResult result = StartRanks(options);
    if (!result.reason.empty()) {
      fmt::print(stderr, "{}{}\n", LineStart(STDERR_FILENO), result.reason);
    }
    return result.exit_code;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

}  // namespace launch
