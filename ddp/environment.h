// The variables of a process as a function, so that what reads them is pure and tests pass a table.
// An empty variable counts as one that is not set.
//
//   const Environment environment = ProcessEnvironment();
//   std::optional<int64_t> rank = NumberOf(environment, "RANK", {0, 7}, "a rank below
//   WORLD_SIZE=8");
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddp {

// The value of a variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// This process's own.
Environment ProcessEnvironment();

// What the variable says.
std::optional<std::string> TextOf(const Environment& environment, const std::string& name);

struct NumberRange {
  int64_t low = 0, high = 0;
};

// The whole number that the variable is. Throws std::invalid_argument "NAME=TEXT: expected
// EXPECTED" for anything else, and for a number outside the range.
std::optional<int64_t> NumberOf(const Environment& environment, const std::string& name,
                                NumberRange range, const std::string& expected);

}  // namespace ddp
