// Who am I: this process's place in the job, from the variables that torchrun made customary.
//
//   std::optional<Identity> identity = IdentityFrom(ProcessEnvironment());
//   if (identity) JoinAs(identity->rank, identity->world_size);
//   else StartTheRanks();  // nobody said: this process is the launcher
//
//   RANK, WORLD_SIZE                place among all ranks of the job
//   LOCAL_RANK, LOCAL_WORLD_SIZE    place among those of this machine; optional
//   MASTER_ADDR, MASTER_PORT        where the ranks meet: rank 0's machine
//
// A pure function of an environment: tests pass a table. Slurm's and MPI's variables will be read
// here too, each into the same Identity.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace launch {

struct Identity {
  int rank = 0;
  int world_size = 1;
  // 0 and 1 where the environment doesn't say: they are never derived from the rank.
  int local_rank = 0;
  int local_world_size = 1;
  std::string master_addr;
  int master_port = 0;

  friend bool operator==(const Identity&, const Identity&) = default;
};

// The value of a variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// This process's own environment.
Environment ProcessEnvironment();

// Nothing when neither RANK nor WORLD_SIZE is set. Throws std::invalid_argument that names the
// variable, its value and what is expected for a set that is incomplete or makes no sense.
std::optional<Identity> IdentityFrom(const Environment& environment);

}  // namespace launch
