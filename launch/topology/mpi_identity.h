// The place that an MPI launcher says:
//
//               rank                  size                  on this machine
//   Open MPI    OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE  ..._LOCAL_RANK, ..._LOCAL_SIZE
//   Cray PALS   PALS_RANKID           PMI_SIZE              PMI_LOCAL_RANK, PMI_LOCAL_SIZE
//   PMI         PMI_RANK              PMI_SIZE              MPI_LOCALRANKID, MPI_LOCALNRANKS
//               (MPICH's Hydra, Intel MPI, srun)            or PMI_LOCAL_RANK, PMI_LOCAL_SIZE
//   MVAPICH     MV2_COMM_WORLD_RANK   MV2_COMM_WORLD_SIZE   ..._LOCAL_RANK, ..._LOCAL_SIZE
//
// The machine's number is known to PALS alone. (Open MPI's OMPI_COMM_WORLD_NODE_RANK is a rank on
// the machine, over all jobs.) PMIX_RANK comes without a size, and not always: it says no place.
#pragma once

#include <optional>

#include "launch/topology/topology.h"

namespace launch {

// Nothing where no family has both rank and size. Throws std::invalid_argument for two families
// that say different places.
std::optional<Identity> MpiIdentity(const Environment& environment);

// Whether a program of this name starts MPI's ranks, on its machine or on all.
bool IsMpiLauncher(const std::string& program);

}  // namespace launch
