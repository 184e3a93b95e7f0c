// Shows checkpoints, checks them, and compares two:
//
//   bazel run //ddp:checkpoint -- inspect DIR
//   bazel run //ddp:checkpoint -- verify DIR
//   bazel run //ddp:checkpoint -- diff DIR DIR2
//
// DIR is a checkpoint's own folder, or one of several checkpoints: then the newest is shown or
// compared, and all are checked. The exit code is 1 where one is damaged or both differ, and 2
// where something else is wrong.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/checkpoint/checkpoint.h"
#include "ddp/checkpoint/report.h"

namespace {

// Relative paths start where the user typed the command, which `bazel run` tells.
std::string FromUsersDirectory(const std::string& path) {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  return std::filesystem::path(directory == nullptr ? "" : directory) / path;
}

// The checkpoints that a DIR stands for, newest first.
std::vector<std::string> CheckpointsOf(const std::string& argument) {
  const std::string path = FromUsersDirectory(argument);
  if (!std::filesystem::is_directory(path)) throw std::invalid_argument(path + " is no folder");
  std::vector<std::string> paths = ddp::ListCheckpoints(path);
  if (!paths.empty()) return paths;
  if (std::filesystem::exists(path + "/manifest.json")) return {path};
  throw std::invalid_argument(path + " is no checkpoint, and holds none");
}

int Inspect(const std::string& argument) {
  const std::string path = CheckpointsOf(argument).front();
  fmt::print("{}\n{}", path, ddp::Describe(ddp::ReadCheckpoint(path)));
  return 0;
}

int Verify(const std::string& argument) {
  int exit_code = 0;
  for (const std::string& path : CheckpointsOf(argument)) {
    try {
      const int64_t num_bytes = ddp::VerifyCheckpoint(path);
      fmt::print("{}: whole, {} bytes\n", path, num_bytes);
    } catch (const ddp::DamagedCheckpoint& damaged) {
      fmt::print("{}: damaged: {}\n", path, damaged.what());
      exit_code = 1;
    }
  }
  return exit_code;
}

int Diff(const std::string& argument, const std::string& other_argument) {
  const std::string path = CheckpointsOf(argument).front();
  const std::string other = CheckpointsOf(other_argument).front();
  const std::string differences =
      ddp::DescribeDifferences(ddp::ReadCheckpoint(path), ddp::ReadCheckpoint(other));
  if (differences.empty()) return 0;
  fmt::print("{}\n{}\n{}", path, other, differences);
  return 1;
}

int Run(const std::vector<std::string>& arguments) {
  const size_t count = arguments.size();
  if (count == 2 && arguments[0] == "inspect") return Inspect(arguments[1]);
  if (count == 2 && arguments[0] == "verify") return Verify(arguments[1]);
  if (count == 3 && arguments[0] == "diff") return Diff(arguments[1], arguments[2]);
  throw std::invalid_argument(
      "usage: checkpoint inspect DIR | checkpoint verify DIR | checkpoint diff DIR DIR2");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const ddp::DamagedCheckpoint& damaged) {
    fmt::print(stderr, "checkpoint: damaged: {}\n", damaged.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "checkpoint: {}\n", error.what());
    return 2;
  }
}
