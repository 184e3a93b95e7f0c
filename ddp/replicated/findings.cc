#include "ddp/replicated/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ddp/replicated/agreement.h"

namespace ddp {
namespace {

using Names = std::vector<std::string>;

// How the lists travel: a line each name, after the letter of its list.
using Letter = std::pair<char, Names Findings::*>;
constexpr Letter kLists[] = {
    {'u', &Findings::unreached}, {'r', &Findings::replaced}, {'n', &Findings::not_finite},
    {'f', &Findings::frozen},    {'t', &Findings::thawed},   {'e', &Findings::errors},
};
constexpr std::string_view kFollows = "follows\n";

// The names of `all` that `some` lacks.
Names Missing(const Names& all, const Names& some) {
  Names missing;
  for (const std::string& name : all) {
    if (std::ranges::find(some, name) == some.end()) missing.push_back(name);
  }
  return missing;
}

// What is wrong on one rank, whatever the others say.
Names TroublesOf(const Findings& rank, bool may_lack_gradients) {
  Names troubles = rank.errors;
  if (!rank.replaced.empty()) {
    troubles.push_back(
        fmt::format("{} was given another tensor after the model was wrapped; wrap it again",
                    ListNames(rank.replaced)));
  }
  if (!rank.unreached.empty() && !may_lack_gradients) {
    troubles.push_back(
        fmt::format("no gradient for {} (the loss doesn't depend on it; find_unused_parameters "
                    "allows that)",
                    ListNames(rank.unreached)));
  }
  if (!rank.not_finite.empty()) {
    troubles.push_back(fmt::format("the gradient of {} isn't finite", ListNames(rank.not_finite)));
  }
  return troubles;
}

// Of what some ranks have done and `rank` hasn't.
void AddDifferences(std::span<const Findings> ranks, const Findings& rank, Names Findings::*list,
                    std::string_view text, Names& troubles) {
  for (const Findings& other : ranks) {
    const Names missing = Missing(other.*list, rank.*list);
    if (other.follows || missing.empty()) continue;
    troubles.push_back(fmt::format("{} {}", ListNames(missing), text));
    return;
  }
}

}  // namespace

std::string Findings::Encode() const {
  std::string text(follows ? kFollows : "");
  for (const auto& [letter, list] : kLists) {
    for (const std::string& name : this->*list) text += fmt::format("{}{}\n", letter, name);
  }
  return text;
}

Findings Findings::Decode(std::string_view text) {
  Findings findings;
  if (text.starts_with(kFollows)) {
    findings.follows = true;
    text.remove_prefix(kFollows.size());
  }
  while (!text.empty()) {
    const auto* const list = std::ranges::find(kLists, text[0], &Letter::first);
    const size_t end = text.find('\n');
    if (list == std::end(kLists) || end == text.npos) {
      throw std::invalid_argument(fmt::format("no rank's findings: '{}'", text));
    }
    (findings.*list->second).emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
  }
  return findings;
}

Verdict Judge(std::span<const Findings> ranks, bool may_lack_gradients) {
  Verdict verdict;
  Names told;
  bool only_not_finite = true;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Findings& mine = ranks[rank];
    if (mine.follows) continue;
    Names troubles = TroublesOf(mine, may_lack_gradients);
    AddDifferences(ranks, mine, &Findings::frozen, "is trained here and frozen elsewhere",
                   troubles);
    AddDifferences(ranks, mine, &Findings::thawed, "is frozen here and trained elsewhere",
                   troubles);
    only_not_finite &= troubles.size() == (mine.not_finite.empty() ? 0 : 1);
    if (!troubles.empty())
      told.push_back(fmt::format("rank {}: {}", rank, fmt::join(troubles, "; ")));
    verdict.frozen = mine.frozen;
    verdict.thawed = mine.thawed;
  }
  verdict.trouble = fmt::format("{}", fmt::join(told, "; "));
  verdict.only_not_finite = !told.empty() && only_not_finite;
  return verdict;
}

}  // namespace ddp
