#include "launch/topology/mpi_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "ddp/store/rank_variables.h"
#include "launch/topology/env_identity.h"

namespace launch {
namespace {

using ddp::NumberOf;

struct NamePair {
  const char* rank;
  const char* size;
};

struct Family {
  const char* name;
  NamePair world;
  std::array<NamePair, 2> local;  // the first that is set
  const char* node_rank;
};

constexpr NamePair kNone = {"", ""};
constexpr NamePair kPmiLocal = {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"};
constexpr Family kFamilies[] = {
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
     {{{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}, kNone}},
     ""},
    {"Cray PALS", {"PALS_RANKID", "PMI_SIZE"}, {{kPmiLocal, kNone}}, "PALS_NODEID"},
    {"PMI", {"PMI_RANK", "PMI_SIZE"}, {{{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, kPmiLocal}}, ""},
    {"MVAPICH",
     {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
     {{{"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"}, kNone}},
     ""},
};

std::string Describe(const NamePair& names, const ddp::RankPlace& place) {
  return fmt::format("{}={} of {}={}", names.rank, place.rank, names.size, place.size);
}

Rendezvous RendezvousOf(const Environment& environment, const Identity& identity) {
  Rendezvous rendezvous;
  rendezvous.host_why = rendezvous.ports_why = "over MPI";
  if (identity.local_world_size == identity.world_size) {
    rendezvous.host = "127.0.0.1";
    rendezvous.host_why = "all ranks are on this machine";
  }
  PreferMasterAddress(environment, &rendezvous);
  return rendezvous;
}

Identity IdentityOf(const Environment& environment, const Family& family,
                    const ddp::RankPlace& place) {
  Identity identity;
  identity.launcher = Launcher::kMpi;
  identity.rank = place.rank;
  identity.world_size = place.size;
  identity.why = fmt::format("{}: {}", family.name, Describe(family.world, place));
  for (const NamePair& names : family.local) {
    const std::optional<ddp::RankPlace> local = ddp::ReadPlace(environment, names.rank, names.size);
    if (!local || identity.local_rank) continue;
    identity.local_rank = local->rank;
    identity.local_world_size = local->size;
    identity.why += ", " + Describe(names, *local);
  }
  identity.node_rank = NumberOf(environment, family.node_rank, {0, std::numeric_limits<int>::max()},
                                "a machine's number");
  identity.rendezvous = RendezvousOf(environment, identity);
  return identity;
}

}  // namespace

std::optional<Identity> MpiIdentity(const Environment& environment) {
  std::optional<Identity> identity;
  for (const Family& family : kFamilies) {
    const auto place = ddp::ReadPlace(environment, family.world.rank, family.world.size);
    if (!place) continue;
    const Identity other = IdentityOf(environment, family, *place);
    if (!identity) {
      identity = other;
    } else if (ddp::RankPlace{identity->rank, identity->world_size} != *place) {
      throw std::invalid_argument(
          fmt::format("two launchers contradict each other: {}, but {}; unset the variables of the "
                      "one that isn't meant",
                      identity->why, other.why));
    }
  }
  return identity;
}

bool IsMpiLauncher(const std::string& program) {
  constexpr std::string_view kPrograms[] = {
      "orted",     "prted",           "prterun",         "mpirun",     "mpiexec",  "mpiexec.hydra",
      "pmi_proxy", "hydra_pmi_proxy", "hydra_bstrap_pr", "mpirun_rsh", "mpispawn", "palsd"};
  return std::ranges::find(kPrograms, program) != std::end(kPrograms);
}

}  // namespace launch
