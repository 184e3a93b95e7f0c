#include "ddp/collectives/bench/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <stdexcept>

namespace ddp::bench {
namespace {

constexpr OperationKind kOperations[] = {OperationKind::kAllReduce, OperationKind::kAllGather,
                                         OperationKind::kReduceScatter, OperationKind::kBroadcast,
                                         OperationKind::kAllToAll};
constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum,   ReduceOp::kAverage, ReduceOp::kProduct,
                                   ReduceOp::kMin,   ReduceOp::kMax,     ReduceOp::kBitAnd,
                                   ReduceOp::kBitOr, ReduceOp::kBitXor};

template <class T>
T Find(std::string_view what, std::string_view name, std::span<const T> known) {
  std::vector<std::string_view> names;
  for (const T value : known) {
    names.push_back(Name(value));
    if (names.back() == name) return value;
  }
  throw std::invalid_argument(
      fmt::format("unknown {} '{}'; known are {}", what, name, fmt::join(names, ", ")));
}

int64_t ParseNumber(std::string_view text, std::string_view whole) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(end - text.data());
  const size_t power = unit.empty() ? 0 : std::string_view("KMG").find(unit) + 1;
  const bool has_unit = unit.size() == 1 && power != 0;
  if (error != std::errc() || number < 1 || !(unit.empty() || has_unit) ||
      number > (std::numeric_limits<int64_t>::max() >> (10 * power))) {
    throw std::invalid_argument(
        fmt::format("'{}' isn't a range of sizes such as 4:64M, 1K:1M:2 or 4096", whole));
  }
  return number << (10 * power);
}

}  // namespace

std::vector<std::string> SplitNames(std::string_view names) {
  std::vector<std::string> split;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    split.emplace_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return split;
}

std::vector<OperationKind> ParseOperations(std::string_view names) {
  std::vector<OperationKind> operations;
  for (const std::string& name : SplitNames(names)) {
    operations.push_back(Find<OperationKind>("operation", name, kOperations));
  }
  return operations;
}

ops::DType ParseDType(std::string_view name) {
  return Find<ops::DType>("dtype", name, ops::kAllDTypes);
}

ReduceOp ParseReduceOp(std::string_view name) {
  return Find<ReduceOp>("reduce operation", name, kReduceOps);
}

std::vector<int64_t> ParseSizes(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(':', begin), text.size());
    numbers.push_back(ParseNumber(text.substr(begin, end - begin), text));
    begin = end + 1;
  }
  const int64_t first = numbers[0];
  const int64_t last = numbers.size() > 1 ? numbers[1] : first;
  const int64_t factor = numbers.size() > 2 ? numbers[2] : 4;
  if (numbers.size() > 3 || factor < 2 || last < first) {
    throw std::invalid_argument(fmt::format(
        "'{}' isn't a range of sizes: FIRST:LAST:FACTOR with a factor of at least 2", text));
  }
  std::vector<int64_t> sizes{first};
  while (sizes.back() <= last / factor) sizes.push_back(sizes.back() * factor);
  return sizes;
}

}  // namespace ddp::bench
