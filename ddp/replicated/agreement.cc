#include "ddp/replicated/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ddp/errors.h"

namespace ddp {
namespace {

using Lines = std::vector<std::string>;

Lines Split(std::string_view text) {
  Lines lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string LineOf(const Lines& lines, size_t i) {
  return i < lines.size() ? lines[i] : "nothing more";
}

// "rank 0 has parameter 'a' float32[2], ranks 1, 2 have parameter 'b' float32[2]"
std::string TellVersions(const std::vector<Lines>& ranks, size_t i) {
  std::vector<std::pair<std::string, std::vector<size_t>>> versions;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string line = LineOf(ranks[rank], i);
    auto version = std::ranges::find(versions, line, &decltype(versions)::value_type::first);
    if (version == versions.end()) version = versions.insert(version, {line, {}});
    version->second.push_back(rank);
  }
  Lines told;
  for (const auto& [line, of] : versions) {
    const bool one = of.size() == 1;
    told.push_back(fmt::format("rank{} {} {} {}", one ? "" : "s", fmt::join(of, ", "),
                               one ? "has" : "have", line));
  }
  return fmt::format("{}", fmt::join(told, ", "));
}

}  // namespace

void RequireSameLines(ProcessGroup& group, const std::vector<std::string>& mine,
                      std::string_view subject) {
  std::vector<Lines> ranks;
  size_t longest = 0;
  for (const std::string& blob : group.ExchangeBlobs(fmt::format("{}", fmt::join(mine, "\n")))) {
    ranks.push_back(Split(blob));
    longest = std::max(longest, ranks.back().size());
  }
  for (size_t i = 0; i < longest; ++i) {
    const bool same = std::ranges::all_of(
        ranks, [&](const Lines& lines) { return LineOf(lines, i) == LineOf(ranks[0], i); });
    if (same) continue;
    throw MismatchError(
        fmt::format("{} differ, first in entry {}: {}", subject, i, TellVersions(ranks, i)));
  }
}

std::string ListNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10;
  const auto end = names.begin() + std::min(names.size(), kMost);
  std::string list = fmt::format("'{}'", fmt::join(names.begin(), end, "', '"));
  if (names.size() > kMost) list += fmt::format(" and {} more", names.size() - kMost);
  return list;
}

}  // namespace ddp
