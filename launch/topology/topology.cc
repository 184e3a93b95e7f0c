#include "launch/topology/topology.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "ddp/store/meeting_point.h"
#include "ddp/store/rank_variables.h"
#include "launch/text/text.h"
#include "launch/topology/env_identity.h"
#include "launch/topology/mpi_identity.h"
#include "launch/topology/slurm_identity.h"

namespace launch {
namespace {

using ddp::TextOf;

constexpr std::pair<Launcher, const char*> kNames[] = {{Launcher::kAuto, "auto"},
                                                       {Launcher::kEnv, "env"},
                                                       {Launcher::kSlurm, "slurm"},
                                                       {Launcher::kMpi, "mpi"},
                                                       {Launcher::kNone, "none"}};

[[noreturn]] void ThrowContradiction(const std::string& one, const std::string& other) {
  throw std::invalid_argument(
      fmt::format("two launchers contradict each other: {}, but {}; say --launcher=env, slurm, mpi "
                  "or none, or unset the variables of the one that isn't meant",
                  one, other));
}

// RANK and WORLD_SIZE that anybody may have set must say what `identity` does.
void CheckAgreement(const Environment& environment, const Identity& identity) {
  const auto check = [&](const std::string& name, int expected) {
    const std::optional<std::string> text = TextOf(environment, name);
    if (text && *text != std::to_string(expected)) {
      ThrowContradiction(identity.why, fmt::format("{}={}", name, *text));
    }
  };
  check("RANK", identity.rank);
  check("WORLD_SIZE", identity.world_size);
}

// PMIX_RANK is set by whatever speaks PMIx, which may have been started inside the step.
void CheckPmixRank(const Surroundings& surroundings, const Identity& slurm) {
  const std::optional<std::string> rank = TextOf(surroundings.environment, "PMIX_RANK");
  if (rank && *rank != std::to_string(slurm.rank) && !IsTaskOfStep(surroundings)) {
    ThrowContradiction(slurm.why, fmt::format("PMIX_RANK={}", *rank));
  }
}

// MPI's or Slurm's word. Where both speak, one was started inside the other.
std::optional<Identity> MpiOrSlurm(const Surroundings& surroundings) {
  std::optional<Identity> slurm = SlurmIdentity(surroundings);
  std::optional<Identity> mpi = MpiIdentity(surroundings.environment);
  if (!slurm) return mpi;
  if (!mpi) {
    CheckPmixRank(surroundings, *slurm);
    return slurm;
  }
  if (IsTaskOfStep(surroundings)) return slurm;
  // srun itself sets the variables of PMI; Slurm's say more.
  const bool is_same = mpi->rank == slurm->rank && mpi->world_size == slurm->world_size;
  if (is_same && !ddp::ReadOpenMpiPlace(surroundings.environment)) return slurm;
  mpi->why += fmt::format("; around it {}", slurm->why);
  return mpi;
}

Identity Detect(const Surroundings& surroundings) {
  const Environment& environment = surroundings.environment;
  if (EnvLauncher(environment)) {
    if (std::optional<Identity> env = EnvIdentity(environment)) return *env;
  }
  if (std::optional<Identity> other = MpiOrSlurm(surroundings)) {
    CheckAgreement(environment, *other);
    return *other;
  }
  if (std::optional<Identity> env = EnvIdentity(environment)) return *env;
  return NoTask(environment);
}

Identity Require(const std::optional<Identity>& identity, Launcher launcher, const char* missing) {
  if (identity) return *identity;
  throw std::invalid_argument(
      fmt::format("--launcher={}: {} not set", ToString(launcher), missing));
}

}  // namespace

std::string ToString(Launcher launcher) {
  for (const auto& [value, name] : kNames) {
    if (value == launcher) return name;
  }
  return "";
}

Launcher ParseLauncher(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [value, its_name] : kNames) {
    if (name == its_name) return value;
    known.push_back(its_name);
  }
  throw std::invalid_argument(UnknownName("launcher", name, known));
}

Identity IdentityFrom(const Surroundings& surroundings, Launcher launcher) {
  const Environment& environment = surroundings.environment;
  if (TextOf(environment, ddp::kStoreHostedVariable)) {
    // Ranks of our own have the flags of who started them, and would start others again.
    if (std::optional<Identity> own = EnvIdentity(environment)) return *own;
  }
  switch (launcher) {
    case Launcher::kAuto:
      return Detect(surroundings);
    case Launcher::kEnv:
      return Require(EnvIdentity(environment), launcher, "RANK and WORLD_SIZE are");
    case Launcher::kSlurm:
      return Require(SlurmIdentity(surroundings), launcher,
                     "SLURM_PROCID, SLURM_STEP_NUM_TASKS and SLURM_STEP_NODELIST, which srun sets "
                     "for the tasks of a step, are");
    case Launcher::kMpi:
      return Require(MpiIdentity(environment), launcher,
                     "OMPI_COMM_WORLD_RANK, PMI_RANK and MV2_COMM_WORLD_RANK, or the size that "
                     "belongs to it, are");
    case Launcher::kNone:
      break;
  }
  Identity alone;
  alone.why = "--launcher=none";
  return alone;
}

void CheckWorldSize(int world_size, int expected, const std::string& why) {
  if (expected == 0 || world_size == expected) return;
  throw std::invalid_argument(fmt::format("the job has {}, expected {} ({})",
                                          FormatCount(world_size, "rank"), expected, why));
}

}  // namespace launch
