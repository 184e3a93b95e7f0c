// MPI in this process: it can be started only once, and ends with the process.
#pragma once

#include <mpi.h>

namespace ddp::mpi {

// Starts MPI, unless that was done before, here or by the program. Throws std::invalid_argument
// when the program started it without MPI_THREAD_MULTIPLE.
void Start();
// MPI must not be ended in good order: a peer that is gone would be waited for.
void SkipFinalize();

int WorldRank();
int WorldSize();

// The first of kTagsPerGroup tags of MPI_COMM_WORLD that no rank of the world reserves again, from
// the top, where programs that use MPI themselves have none. One rank of a group reserves them and
// tells the others. Throws std::runtime_error when all are taken: after 2^27 groups of the whole
// world (Open MPI without UCX).
inline constexpr int kTagsPerGroup = 16;
int ReserveTags();

// Throws std::runtime_error with MPI's own words unless `code` is MPI_SUCCESS.
void Check(int code, const char* function);

}  // namespace ddp::mpi
