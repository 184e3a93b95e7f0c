// Says who waits for whom, from the flight records that the ranks of a job wrote.
//
//   bazel run //ddp:desync -- FILE...
#include "ddp/collectives/desync.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "ddp/collectives/flight_record.h"

namespace {

// Relative paths start where the user typed the command, which `bazel run` tells.
std::string FromUsersDirectory(const std::string& path) {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  return std::filesystem::path(directory == nullptr ? "" : directory) / path;
}

std::string Read(const std::string& path) {
  std::ifstream file(FromUsersDirectory(path));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    throw std::system_error(errno, std::generic_category(), "can't read");
  }
  return text;
}

std::vector<ddp::FlightRecord> ReadAll(const std::vector<std::string>& paths) {
  std::vector<ddp::FlightRecord> records;
  for (const std::string& path : paths) {
    try {
      records.push_back(ddp::ParseFlightRecord(Read(path)));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
    }
  }
  return records;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) {
      throw std::invalid_argument("give it the flight_record_*.json of all ranks: desync FILE...");
    }
    fmt::print("{}", ddp::DescribeDesync(ReadAll({argv + 1, argv + argc})));
  } catch (const std::exception& error) {
    fmt::print(stderr, "desync: {}\n", error.what());
    return 1;
  }
}
