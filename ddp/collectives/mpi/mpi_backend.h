// The mpi backend: messages through Open MPI, for ranks that mpirun (or srun with PMIx) started.
//
//   mpi_backend     from a meeting to a backend; mpi_backend_stub where MPI was switched off
//   runtime         MPI itself: started once in a process, ended with it
//   mpi_transport   messages with deadlines, over non-blocking operations of MPI
//
// MPI's own reductions aren't used: they sum in an order of their own, wait for ever, and pair
// whatever meets.
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp {

// Throws std::invalid_argument where the process isn't one of enough MPI ranks, or MPI was started
// by the program with a thread level that several groups can't use.
std::unique_ptr<Backend> MakeMpiBackend(const Meeting& meeting);

}  // namespace ddp
