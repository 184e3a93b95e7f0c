#include "ddp/collectives/store_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <sstream>

#include "ddp/errors.h"

namespace ddp {
namespace {

constexpr char kNone[] = "none";

// On one line of a message, whatever bytes there are.
std::string Printable(const std::string& value) {
  constexpr size_t kMaxBytes = 60;
  std::string text = value.substr(0, kMaxBytes);
  for (char& byte : text) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return value.size() > kMaxBytes ? text + "..." : text;
}

}  // namespace

void ThrowIllegible(const std::string& key, const std::string& value) {
  throw CollectiveError(fmt::format("the store's key '{}' holds what no rank has written: '{}'",
                                    key, Printable(value)));
}

std::optional<int> ParseNumber(std::string_view digits, int max, int base) {
  int number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number, base);
  if (error != std::errc() || stop != end || number < 0 || number > max) return std::nullopt;
  return number;
}

std::string EncodeRanks(const std::vector<int>& ranks) {
  return ranks.empty() ? kNone : fmt::format("{}", fmt::join(ranks, " "));
}

std::vector<int> DecodeRanks(const std::string& key, const std::string& value, int size) {
  std::vector<int> ranks;
  if (value == kNone) return ranks;
  std::istringstream words(value);
  for (std::string word; words >> word;) {
    const std::optional<int> rank = ParseNumber(word, size - 1);
    if (!rank || (!ranks.empty() && *rank <= ranks.back())) ThrowIllegible(key, value);
    ranks.push_back(*rank);
  }
  if (ranks.empty()) ThrowIllegible(key, value);
  return ranks;
}

}  // namespace ddp
