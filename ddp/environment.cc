#include "ddp/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <stdexcept>

namespace ddp {

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<std::string> TextOf(const Environment& environment, const std::string& name) {
  std::optional<std::string> text = environment(name);
  return text && text->empty() ? std::nullopt : text;
}

std::optional<int64_t> NumberOf(const Environment& environment, const std::string& name,
                                NumberRange range, const std::string& expected) {
  const std::optional<std::string> text = TextOf(environment, name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool is_number = error == std::errc() && end == text->data() + text->size();
  if (!is_number || value < range.low || value > range.high) {
    throw std::invalid_argument(fmt::format("{}={}: expected {}", name, *text, expected));
  }
  return value;
}

}  // namespace ddp
