// Parsing and explaining Abseil flags by reflection. Abseil's own command-line parser ends the
// process on an error, and its --help lists the flags of every library with exit code 1.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/topology/topology.h"

namespace launch {

// Whether --help is among the arguments (those of main, without the program).
bool AsksForHelp(const std::vector<std::string>& arguments);

// Names of flags under a title; what isn't in a group isn't the program's.
struct FlagGroup {
  std::string title;
  std::vector<std::string> flags;
};
using FlagGroups = std::vector<FlagGroup>;

// Sets the flags that `arguments` ("--name=value" or "--name", "value") name; "--name" alone
// switches on what is on or off. Throws std::invalid_argument for a flag outside the groups, a
// value of the wrong kind, a missing value, and anything that isn't a flag.
void SetFlags(const std::vector<std::string>& arguments, const FlagGroups& groups);

// The same for flags that come before a program and its arguments. Returns the index of the first
// argument that is no flag and no flag's value; "--" ends the flags, too. --help ends them, as what
// follows no longer counts.
size_t SetLeadingFlags(const std::vector<std::string>& arguments, const FlagGroups& groups);

// The groups with each flag's meaning and default; `defaults` has those that the flag itself
// doesn't know.
std::string DescribeFlags(const FlagGroups& groups,
                          const std::map<std::string, std::string>& defaults);

// The path as seen from where the user typed the command, which `bazel run` tells in
// BUILD_WORKING_DIRECTORY; "" stays.
std::string FromUsersDirectory(const std::string& path, const Environment& environment);

// "1024,10" as {1024, 10}; nothing where it is anything but whole numbers with commas between.
std::optional<std::vector<int64_t>> ParseWholeNumbers(const std::string& text);

}  // namespace launch
