#include "launch/topology/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "launch/topology/devices.h"

namespace launch {
namespace {

std::string Known(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "?";
}

template <class T>
nlohmann::ordered_json OrNull(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::string DescribeRendezvous(const Rendezvous& rendezvous) {
  const std::string host = rendezvous.host.empty() ? "yet to be agreed" : rendezvous.host;
  const std::string ports = rendezvous.ports.empty()
                                ? "yet to be agreed"
                                : fmt::format("{}", fmt::join(rendezvous.ports, " or "));
  return fmt::format("meets at     {} ({})\non port      {} ({})\n", host, rendezvous.host_why,
                     ports, rendezvous.ports_why);
}

}  // namespace

std::string Describe(const Identity& identity) {
  std::string text = fmt::format("rank         {} of {}\n", identity.rank, identity.world_size);
  if (identity.launcher != Launcher::kNone) {
    text += fmt::format("here         {} of {}, on machine {}\n", Known(identity.local_rank),
                        Known(identity.local_world_size), Known(identity.node_rank));
  }
  text +=
      fmt::format("launcher     {}\nbecause      {}\n", ToString(identity.launcher), identity.why);
  if (identity.launcher != Launcher::kNone) text += DescribeRendezvous(identity.rendezvous);
  for (const std::string& warning : identity.warnings) text += "warning: " + warning + "\n";
  return text;
}

std::string DescribeGpu(const Identity& identity, const Environment& environment) {
  const std::optional<int> num_visible = CountVisibleGpus(environment);
  if (!num_visible || !identity.local_rank || !identity.local_world_size) return "";
  try {
    const int gpu = ChooseGpu(*identity.local_rank, *identity.local_world_size, *num_visible);
    return fmt::format("gpu          {} of {} visible\n", gpu, *num_visible);
  } catch (const std::invalid_argument& e) {
    return fmt::format("gpu          none: {}\n", e.what());
  }
}

std::string IdentityJson(const Identity& identity) {
  const Rendezvous& rendezvous = identity.rendezvous;
  const bool has_host = !rendezvous.host.empty();
  const nlohmann::ordered_json json = {
      {"launcher", ToString(identity.launcher)},
      {"rank", identity.rank},
      {"world_size", identity.world_size},
      {"local_rank", OrNull(identity.local_rank)},
      {"local_world_size", OrNull(identity.local_world_size)},
      {"node_rank", OrNull(identity.node_rank)},
      {"host", has_host ? nlohmann::ordered_json(rendezvous.host) : nullptr},
      {"ports", rendezvous.ports},
      {"why", identity.why},
      {"host_why", rendezvous.host_why},
      {"ports_why", rendezvous.ports_why},
      {"warnings", identity.warnings},
  };
  return json.dump(2) + "\n";
}

}  // namespace launch
