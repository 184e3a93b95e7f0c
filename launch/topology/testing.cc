#include "launch/topology/testing.h"

#include <fmt/format.h>

namespace launch {
namespace {

std::string Known(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "?";
}

}  // namespace

std::string InShort(const Identity& identity) {
  const std::string place =
      fmt::format("{} {} of {}", ToString(identity.launcher), identity.rank, identity.world_size);
  if (identity.launcher == Launcher::kNone) return place;
  const std::string& host = identity.rendezvous.host;
  return fmt::format("{}, here {} of {}, machine {}, at {}", place, Known(identity.local_rank),
                     Known(identity.local_world_size), Known(identity.node_rank),
                     host.empty() ? "?" : host);
}

}  // namespace launch
