#include "slurm/task_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace slurm {
namespace {

[[noreturn]] void Refuse(std::string_view text) {
  throw std::invalid_argument(
      fmt::format("counts '{}': expected counts with commas between, such as 2(x2),1", text));
}

// Takes `prefix` off `*rest`, if it begins so.
bool Take(std::string_view prefix, std::string_view* rest) {
  if (!rest->starts_with(prefix)) return false;
  rest->remove_prefix(prefix.size());
  return true;
}

// Takes a whole number from 1 off `*rest`; 0 where there is none.
int TakeNumber(std::string_view* rest) {
  int number = 0;
  const auto [end, error] = std::from_chars(rest->data(), rest->data() + rest->size(), number);
  if (error != std::errc() || number < 1) return 0;
  rest->remove_prefix(end - rest->data());
  return number;
}

}  // namespace

std::vector<int> ExpandTaskCounts(std::string_view text, size_t num_nodes) {
  std::vector<int> counts;
  std::string_view rest = text;
  do {
    const int count = TakeNumber(&rest);
    int repetitions = 1;
    if (Take("(x", &rest)) {
      repetitions = TakeNumber(&rest);
      if (!Take(")", &rest)) Refuse(text);
    }
    if (count == 0 || repetitions == 0) Refuse(text);
    counts.insert(counts.end(), std::min<size_t>(repetitions, num_nodes - counts.size()), count);
  } while (Take(",", &rest));
  if (!rest.empty()) Refuse(text);
  if (counts.size() < num_nodes) {
    throw std::invalid_argument(
        fmt::format("counts '{}' are of {} nodes, not of {}", text, counts.size(), num_nodes));
  }
  return counts;
}

}  // namespace slurm
