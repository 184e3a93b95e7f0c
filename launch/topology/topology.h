// Who am I: this process's place in the job, from what its launcher put into the environment, and
// where the ranks meet. `bazel run //launch:whoami` prints it.
//
//   const Identity identity = IdentityFrom(OwnSurroundings());
//   if (identity.launcher != Launcher::kNone) JoinAs(identity.rank, identity.world_size);
//   else StartTheRanks();  // nobody made this process one of several
//
// A place is always one launcher's word as a whole, never pieced together from several. The
// launchers, each before the next:
//
//   ours       DDP_STORE_HOSTED with RANK, WORLD_SIZE, ...; whatever was asked for
//   env        RANK and WORLD_SIZE. Where Slurm or MPI speak, too, it must be the same, unless
//              torchrun's TORCHELASTIC_RUN_ID says who is nearest to the process
//   mpi        Open MPI, Cray PALS, PMI (MPICH, Intel), MVAPICH: mpi_identity.h
//   slurm      a Slurm step: slurm_identity.h. Before mpi where the process is the step's own task
//
// The shell of a batch script is no rank, though it has SLURM_PROCID=0, nor is a shell that ssh
// opened on a node: a step's variables count all together or not at all.
//
// A pure function of what the process has been given: tests pass tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddp/environment.h"
#include "launch/topology/surroundings.h"

namespace launch {

using ddp::Environment;
using ddp::ProcessEnvironment;

enum class Launcher { kAuto, kEnv, kSlurm, kMpi, kNone };

// "auto", "env", "slurm", "mpi" or "none": what --launcher takes. ParseLauncher throws
// std::invalid_argument for another name.
std::string ToString(Launcher launcher);
Launcher ParseLauncher(const std::string& name);

// Where the ranks meet.
struct Rendezvous {
  std::string host;        // rank 0's machine; empty: yet to be agreed
  std::vector<int> ports;  // rank 0 takes the first that it can; none: yet to be agreed
  std::string host_why, ports_why;
  // What tells this job, and this start of it, from others that might meet there; empty where
  // nothing does.
  std::string token;
};

struct Identity {
  // Who says so, never kAuto. kNone: nobody, and the process is by itself, 0 of 1.
  Launcher launcher = Launcher::kNone;
  int rank = 0;
  int world_size = 1;
  // The place among the ranks of this machine, and the machine's number in the job: nothing where
  // the launcher doesn't say. They are never derived from the rank; ranks that have met can tell.
  std::optional<int> local_rank, local_world_size, node_rank;
  Rendezvous rendezvous;
  std::string why;                    // the variables that decided
  std::vector<std::string> warnings;  // what is probably not meant so
};

// `launcher` other than kAuto: by that one's variables alone; kNone: by itself, whatever is set.
// Throws std::invalid_argument for variables that make no sense (with name, value and what is
// expected), for launchers that contradict each other (with what both say), and where the launcher
// that was asked for says nothing.
Identity IdentityFrom(const Surroundings& surroundings, Launcher launcher = Launcher::kAuto);

// Throws std::invalid_argument when the job has another number of ranks than `expected`; 0: any.
// `why` says whose word that is.
void CheckWorldSize(int world_size, int expected, const std::string& why);

}  // namespace launch
