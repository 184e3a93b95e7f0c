#include "launch/topology/env_identity.h"

#include <fmt/format.h>

#include <limits>

#include "ddp/store/meeting_point.h"
#include "ddp/store/rank_variables.h"

namespace launch {
namespace {

using ddp::NumberOf;
using ddp::TextOf;

void ReadLocalPlace(const Environment& environment, Identity* identity) {
  identity->local_world_size = NumberOf(
      environment, "LOCAL_WORLD_SIZE", {1, identity->world_size},
      fmt::format("the ranks on this machine, at most WORLD_SIZE={}", identity->world_size));
  const char* whole = identity->local_world_size ? "LOCAL_WORLD_SIZE" : "WORLD_SIZE";
  const int size = identity->local_world_size.value_or(identity->world_size);
  identity->local_rank = NumberOf(environment, "LOCAL_RANK", {0, size - 1},
                                  fmt::format("a rank below {}={}", whole, size));
}

std::optional<int> ReadNodeRank(const Environment& environment) {
  for (const char* name : {"GROUP_RANK", "NODE_RANK", "CROSS_RANK"}) {
    const std::optional<int> rank =
        NumberOf(environment, name, {0, std::numeric_limits<int>::max()}, "a machine's number");
    if (rank) return rank;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Identity> EnvIdentity(const Environment& environment) {
  const std::optional<ddp::RankPlace> place = ddp::ReadTorchrunPlace(environment);
  if (!place) return std::nullopt;
  Identity identity;
  identity.launcher = Launcher::kEnv;
  identity.rank = place->rank;
  identity.world_size = place->size;
  ReadLocalPlace(environment, &identity);
  identity.node_rank = ReadNodeRank(environment);
  identity.rendezvous.host_why = "MASTER_ADDR is not set";
  identity.rendezvous.ports_why = "MASTER_PORT is not set";
  PreferMasterAddress(environment, &identity.rendezvous);
  identity.why = fmt::format("RANK={} of WORLD_SIZE={}, set by {}", place->rank, place->size,
                             EnvLauncher(environment).value_or("whoever started this process"));
  return identity;
}

std::optional<std::string> EnvLauncher(const Environment& environment) {
  if (TextOf(environment, ddp::kStoreHostedVariable)) return "this library's agent";
  if (TextOf(environment, "TORCHELASTIC_RUN_ID")) return "torchrun";
  return std::nullopt;
}

void PreferMasterAddress(const Environment& environment, Rendezvous* rendezvous) {
  const ddp::MasterAddress master = ddp::ReadMasterAddress(environment);
  if (master.host) {
    rendezvous->host = *master.host;
    rendezvous->host_why = "MASTER_ADDR";
  }
  if (master.port) {
    rendezvous->ports = {*master.port};
    rendezvous->ports_why = "MASTER_PORT";
  }
}

}  // namespace launch
