#include "ddp/store/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

int64_t ParseNumber(const std::string& key, const std::string& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [parsed_end, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed_end != end) {
    throw std::invalid_argument(
        fmt::format("can't add to key '{}': its value '{}' is no number", key, text.substr(0, 40)));
  }
  return number;
}

}  // namespace

void Table::Set(const std::string& key, std::string value) {
  values_.insert_or_assign(key, std::move(value));
}

const std::string* Table::Find(const std::string& key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

int64_t Table::Add(const std::string& key, int64_t amount) {
  const std::string* value = Find(key);
  const int64_t number = value == nullptr ? 0 : ParseNumber(key, *value);
  int64_t sum = 0;
  if (__builtin_add_overflow(number, amount, &sum)) {
    throw std::invalid_argument(
        fmt::format("key '{}': {} + {} doesn't fit in 64 bits", key, number, amount));
  }
  Set(key, std::to_string(sum));
  return sum;
}

std::string Table::CompareAndSet(const std::string& key, const std::string& expected,
                                 const std::string& desired) {
  const auto it = values_.find(key);
  if (it == values_.end()) {
    if (!expected.empty()) return "";
    Set(key, desired);
    return desired;
  }
  if (it->second == expected) it->second = desired;
  return it->second;
}

bool Table::Delete(const std::string& key) { return values_.erase(key) == 1; }

std::vector<std::string> Table::Missing(const std::vector<std::string>& keys) const {
  std::vector<std::string> missing;
  std::ranges::copy_if(keys, std::back_inserter(missing),
                       [this](const std::string& key) { return !values_.contains(key); });
  return missing;
}

bool Table::HasAll(const std::vector<std::string>& keys) const {
  return std::ranges::all_of(keys, [this](const auto& key) { return values_.contains(key); });
}

}  // namespace ddp
