// MPI in this process: it can be started only once, and ends with the process.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace ddp::mpi {

// Starts MPI, unless that was done before, here or by the program. Throws std::invalid_argument
// when the program started it without MPI_THREAD_MULTIPLE.
void Start();
// MPI must not be ended in good order: a peer that is gone would be waited for.
void SkipFinalize();

int WorldRank();
int WorldSize();

// A communicator of these ranks of MPI's world, in this order; each of them calls it, with the same
// `tag`. To be freed with MPI_Comm_free.
MPI_Comm MakeCommunicator(const std::vector<int>& world_ranks, int tag);

// Throws std::runtime_error with MPI's own words unless `code` is MPI_SUCCESS.
void Check(int code, const char* function);

}  // namespace ddp::mpi
