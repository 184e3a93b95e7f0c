// Which rank this process is, who says so, and where the ranks meet: for finding out what a
// launcher does, before a program that counts is started by it.
//
//   bazel run //launch:whoami
//   srun --ntasks=4 bazel-bin/launch/whoami --json
#include <absl/flags/flag.h>
#include <fmt/format.h>

#include <exception>
#include <string>
#include <vector>

#include "launch/flags/launcher.h"
#include "launch/flags/parser.h"
#include "launch/topology/describe.h"
#include "launch/topology/topology.h"

ABSL_FLAG(bool, json, false, "one object in JSON, for programs");

namespace launch {
namespace {

const FlagGroups& Groups() {
  static const FlagGroups groups = {{"Flags", {"launcher", "expect_world", "json"}}};
  return groups;
}

void Run(const std::vector<std::string>& arguments) {
  SetFlags(arguments, Groups());
  const LauncherFlags flags = ReadLauncherFlags();
  const Surroundings surroundings = OwnSurroundings();
  const Identity identity = IdentityFrom(surroundings, flags.launcher);
  CheckWorldSize(identity.world_size, flags.expected_world_size, identity.why);
  // In one piece: the ranks of a job share the terminal.
  fmt::print("{}", absl::GetFlag(FLAGS_json)
                       ? IdentityJson(identity)
                       : Describe(identity) + DescribeGpu(identity, surroundings.environment));
}

}  // namespace
}  // namespace launch

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (launch::AsksForHelp(arguments)) {
    fmt::print("Says which rank this process is, and why.\n\n{}",
               launch::DescribeFlags(launch::Groups(), {}));
    return 0;
  }
  try {
    launch::Run(arguments);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
