#include "launch/text/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace launch {
namespace {

// How many characters must be added, removed or replaced to turn `a` into `b` (Levenshtein).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string FormatBytes(int64_t num_bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(num_bytes);
  size_t unit = 0;
  // 999.5 would be rounded to four digits.
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  const int decimals = unit > 0 && value < 9.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 0.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::string FormatCount(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string UnknownName(std::string_view what, std::string_view name,
                        const std::vector<std::string>& known) {
  std::string suggestion;
  size_t nearest = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance >= std::min(nearest, std::max(name.size(), candidate.size()))) continue;
    nearest = distance;
    suggestion = fmt::format(" did you mean '{}'?", candidate);
  }
  return fmt::format("unknown {} '{}';{} {}: {}", what, name, suggestion,
                     suggestion.empty() ? "known" : "Known", fmt::join(known, ", "));
}

}  // namespace launch
