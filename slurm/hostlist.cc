#include "slurm/hostlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

namespace slurm {
namespace {

constexpr std::string_view kSeparators = ", \t\n";
constexpr std::string_view kDigits = "0123456789";
// Longer numbers don't fit 64 bits, and longer names are none in DNS.
constexpr size_t kMaxDigits = 18;
constexpr size_t kMaxNameLength = 255;

// Numbers with leading zeros up to `width`.
struct Range {
  int64_t low = 0, high = 0;
  size_t width = 0;

  size_t size() const { return static_cast<size_t>(high - low) + 1; }
};

// One or more ranges in brackets.
struct Brackets {
  std::vector<Range> ranges;

  size_t size() const {
    return std::accumulate(ranges.begin(), ranges.end(), size_t{0},
                           [](size_t sum, const Range& range) { return sum + range.size(); });
  }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const Range& range : ranges) {
      for (int64_t n = range.low; n <= range.high; ++n) {
        texts.push_back(fmt::format("{:0{}}", n, range.width));
      }
    }
    return texts;
  }
};

// texts[0] brackets[0] texts[1] ... brackets[n-1] texts[n]
struct Item {
  std::vector<std::string> texts;
  std::vector<Brackets> brackets;
};

// The number that `text` is, if it is nothing but digits.
std::optional<int64_t> ParseNumber(std::string_view text) {
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  if (text.find_first_not_of(kDigits) != std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Calls `use` with each part between separators.
template <class Use>
void Split(std::string_view text, char separator, Use use) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    use(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

Range ParseRange(std::string_view text) {
  if (text.find('x') != std::string_view::npos) {
    throw std::invalid_argument(
        fmt::format("'{}' is a box of a multi-dimensional cluster, which isn't supported", text));
  }
  const size_t dash = text.find('-');
  const std::string_view low_text = text.substr(0, dash);
  const std::optional<int64_t> low = ParseNumber(low_text);
  const std::optional<int64_t> high =
      dash == std::string_view::npos ? low : ParseNumber(text.substr(dash + 1));
  if (!low || !high) {
    throw std::invalid_argument(
        fmt::format("'{}': expected a number or low-high, at most {} digits", text, kMaxDigits));
  }
  if (*low > *high) throw std::invalid_argument(fmt::format("'{}' runs downwards", text));
  const Range range{*low, *high, low_text.size()};
  if (range.size() > kMaxHostsPerRange) {
    throw std::invalid_argument(
        fmt::format("'{}' has more than {} hosts", text, kMaxHostsPerRange));
  }
  return range;
}

Brackets ParseBrackets(std::string_view text) {
  Brackets brackets;
  Split(text, ',', [&](std::string_view range) { brackets.ranges.push_back(ParseRange(range)); });
  return brackets;
}

// Reads the item at the beginning of `*list`, up to a separator outside brackets, and takes it off.
Item TakeItem(std::string_view* list) {
  Item item;
  item.texts.emplace_back();
  while (!list->empty() && kSeparators.find(list->front()) == std::string_view::npos) {
    const char c = list->front();
    list->remove_prefix(1);
    if (c == '{' || c == '}') throw std::invalid_argument("functions {...} aren't supported");
    if (c == ']') throw std::invalid_argument("']' without '['");
    if (c != '[') {
      item.texts.back() += c;
      continue;
    }
    const size_t end = list->find(']');
    if (end == std::string_view::npos) throw std::invalid_argument("'[' without ']'");
    item.brackets.push_back(ParseBrackets(list->substr(0, end)));
    item.texts.emplace_back();
    list->remove_prefix(end + 1);
  }
  return item;
}

// A long text many times over would be a bomb as well.
void CheckLength(const Item& item) {
  size_t length = item.brackets.size();
  for (const std::string& text : item.texts) length += text.size();
  if (length > kMaxNameLength) {
    throw std::invalid_argument(fmt::format("a name has more than {} characters", kMaxNameLength));
  }
}

// How many hosts the item is, or kMaxHosts + 1 if it is more than that.
size_t CountHosts(const Item& item) {
  size_t count = 1;
  for (const Brackets& brackets : item.brackets) {
    count = std::min(count * std::min(brackets.size(), kMaxHosts + 1), kMaxHosts + 1);
  }
  return count;
}

// The brackets by how fast they run, the slowest first: all but the last from right to left, then
// the last. (Slurm makes it so, by replacing the brackets before the last one recursively.)
std::vector<size_t> LoopOrder(size_t num_brackets) {
  std::vector<size_t> order(num_brackets);
  std::iota(order.begin(), order.end(), size_t{0});
  if (num_brackets > 1) std::reverse(order.begin(), order.end() - 1);
  return order;
}

void AppendHosts(const Item& item, std::vector<std::string>* hosts) {
  std::vector<std::vector<std::string>> numbers;
  for (const Brackets& brackets : item.brackets) numbers.push_back(brackets.Texts());
  const std::vector<size_t> order = LoopOrder(numbers.size());
  std::vector<size_t> at(numbers.size(), 0);  // which number of each bracket
  for (size_t left = CountHosts(item); left > 0; --left) {
    std::string& host = hosts->emplace_back(item.texts[0]);
    for (size_t i = 0; i < numbers.size(); ++i) host += numbers[i][at[i]] + item.texts[i + 1];
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      if (++at[*i] < numbers[*i].size()) break;
      at[*i] = 0;
    }
  }
}

std::vector<Item> ParseItems(std::string_view list) {
  std::vector<Item> items;
  size_t num_hosts = 0;
  for (;;) {
    list.remove_prefix(std::min(list.find_first_not_of(kSeparators), list.size()));
    if (list.empty()) return items;
    items.push_back(TakeItem(&list));
    CheckLength(items.back());
    num_hosts += CountHosts(items.back());
    if (num_hosts > kMaxHosts) {
      throw std::invalid_argument(fmt::format("it has more than {} hosts", kMaxHosts));
    }
  }
}

// A host's name as a text and the number at its end, if it has one.
struct Name {
  std::string_view prefix;
  std::string_view digits;
};

Name SplitName(const std::string& host) {
  if (host.empty() || host.find_first_of(", \t\n[]{}") != std::string::npos) {
    throw std::invalid_argument(fmt::format("'{}' is no name of a host", host));
  }
  const size_t end_of_prefix = host.find_last_not_of(kDigits) + 1;
  const std::string_view name = host;
  if (name.size() - end_of_prefix > kMaxDigits) return {name, ""};
  return {name.substr(0, end_of_prefix), name.substr(end_of_prefix)};
}

// Whether `digits` is the next number of `range`, and the range may grow.
bool Continues(const Range& range, std::string_view digits) {
  return range.size() < kMaxHostsPerRange &&
         fmt::format("{:0{}}", range.high + 1, range.width) == digits;
}

std::string Format(std::string_view prefix, const std::vector<Range>& ranges) {
  std::string text;
  for (const auto& [low, high, width] : ranges) {
    text += fmt::format("{}{:0{}}", text.empty() ? "" : ",", low, width);
    if (high > low) text += fmt::format("-{:0{}}", high, width);
  }
  const bool is_one_host = ranges.size() == 1 && ranges[0].size() == 1;
  return is_one_host ? fmt::format("{}{}", prefix, text) : fmt::format("{}[{}]", prefix, text);
}

}  // namespace

std::vector<std::string> ExpandHostlist(std::string_view list) {
  try {
    std::vector<std::string> hosts;
    for (const Item& item : ParseItems(list)) AppendHosts(item, &hosts);
    return hosts;
  } catch (const std::invalid_argument& e) {
    constexpr size_t kQuoted = 200;
    throw std::invalid_argument(fmt::format("node list '{}{}': {}", list.substr(0, kQuoted),
                                            list.size() > kQuoted ? "..." : "", e.what()));
  }
}

std::string CompressHostlist(const std::vector<std::string>& hosts) {
  std::string list;
  for (size_t i = 0; i < hosts.size();) {
    if (!list.empty()) list += ',';
    const Name first = SplitName(hosts[i]);
    if (first.digits.empty()) {
      list += hosts[i++];
      continue;
    }
    std::vector<Range> ranges;
    for (; i < hosts.size(); ++i) {
      const Name name = SplitName(hosts[i]);
      if (name.prefix != first.prefix || name.digits.empty()) break;
      if (!ranges.empty() && Continues(ranges.back(), name.digits)) {
        ++ranges.back().high;
      } else {
        const int64_t number = *ParseNumber(name.digits);
        ranges.push_back({number, number, name.digits.size()});
      }
    }
    list += Format(first.prefix, ranges);
  }
  return list;
}

}  // namespace slurm
