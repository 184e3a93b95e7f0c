#include "launch/topology/topology.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace launch {
namespace {

// Reads the variables of one environment; its errors name the variable.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool Has(const std::string& name) const { return environment_(name).has_value(); }

  // Throws where the variable is missing; `because` names the one that makes it necessary.
  std::string Text(const std::string& name, const std::string& because) const {
    std::optional<std::string> value = environment_(name);
    if (!value || value->empty()) {
      throw std::invalid_argument(
          fmt::format("{} is {}, but {} is set: a rank needs RANK, WORLD_SIZE, MASTER_ADDR and "
                      "MASTER_PORT, and "
                      "has both or none of LOCAL_RANK and LOCAL_WORLD_SIZE",
                      name, value ? "empty" : "not set", because));
    }
    return *value;
  }

  // A whole number in [low, high]; `expected` says in words what that is.
  int Number(const std::string& name, const std::string& because, int low, int high,
             const std::string& expected) const {
    const std::string text = Text(name, because);
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if (!is_number || value < low || value > high) {
      throw std::invalid_argument(fmt::format("{}={}: expected {}", name, text, expected));
    }
    return value;
  }

 private:
  const Environment& environment_;
};

void ReadLocalPlace(const Reader& reader, Identity* identity) {
  identity->local_world_size = reader.Number(
      "LOCAL_WORLD_SIZE", "LOCAL_RANK", 1, identity->world_size,
      fmt::format("the ranks on this machine, at most WORLD_SIZE={}", identity->world_size));
  identity->local_rank =
      reader.Number("LOCAL_RANK", "LOCAL_WORLD_SIZE", 0, identity->local_world_size - 1,
                    fmt::format("a rank below LOCAL_WORLD_SIZE={}", identity->local_world_size));
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<Identity> IdentityFrom(const Environment& environment) {
  const Reader reader(environment);
  if (!reader.Has("RANK") && !reader.Has("WORLD_SIZE")) return std::nullopt;

  const std::string given = reader.Has("RANK") ? "RANK" : "WORLD_SIZE";
  Identity identity;
  identity.world_size = reader.Number("WORLD_SIZE", given, 1, std::numeric_limits<int>::max(),
                                      "the number of ranks, a whole number from 1");
  identity.rank = reader.Number("RANK", given, 0, identity.world_size - 1,
                                fmt::format("a rank below WORLD_SIZE={}", identity.world_size));
  if (reader.Has("LOCAL_RANK") || reader.Has("LOCAL_WORLD_SIZE")) {
    ReadLocalPlace(reader, &identity);
  }
  identity.master_addr = reader.Text("MASTER_ADDR", given);
  identity.master_port = reader.Number("MASTER_PORT", given, 1, 65535, "a port, 1 to 65535");
  return identity;
}

}  // namespace launch
