// Trains a model on several ranks of this machine, or as one rank of a larger world.
//
//   bazel run //launch:train -- --help
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "launch/flags/flags.h"
#include "launch/flags/parser.h"
#include "launch/spawn.h"
#include "launch/topology/topology.h"
#include "launch/trainer/trainer.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (launch::AsksForHelp(arguments)) {
    fmt::print("{}", launch::HelpText());
    return 0;
  }
  launch::CommandLine command_line;
  std::optional<launch::RankSignals> signals;  // where this process is a rank, from the start
  try {
    const launch::Surroundings surroundings = launch::OwnSurroundings();
    command_line = launch::ParseCommandLine(arguments, surroundings.environment);
    const launch::Identity identity =
        launch::IdentityFrom(surroundings, command_line.launcher.launcher);
    if (identity.launcher != launch::Launcher::kNone) {
      signals.emplace(launch::SignalsFor(command_line.train, surroundings.environment));
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
  const auto train = [&](int rank, int world_size, std::shared_ptr<ddp::Store> store) {
    launch::Train(command_line.train, rank, world_size, store, *signals);
  };
  return launch::Spawn(train, {.num_ranks = command_line.num_ranks,
                               .max_restarts = command_line.max_restarts,
                               .stop_signal = command_line.train.stop_signal,
                               .launcher = command_line.launcher.launcher,
                               .expected_world_size = command_line.launcher.expected_world_size,
                               .timeout = command_line.train.timeout});
}
