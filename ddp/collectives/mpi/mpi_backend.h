// The mpi backend: messages through Open MPI, for ranks that mpirun (or srun with PMIx) started.
//
//   mpi_backend     from a meeting to a backend; mpi_backend_stub where MPI was switched off
//   runtime         MPI itself: started once in a process, ended with it
//   mpi_transport   messages with deadlines, over non-blocking operations of MPI
//
// MPI's own reductions aren't used: they sum in an order of their own, wait for ever, and pair
// whatever meets. All groups share MPI_COMM_WORLD, each with tags of its own: a communicator can
// only be made by ranks that wait for each other without a deadline, and its number goes to the
// next one while messages of the last are still on their way. A program that uses MPI itself
// mustn't receive there with MPI_ANY_TAG.
//
// An operation that fails gives its buffers back in the midst of it, and what was received so far
// is undefined. MPI can't call back a message that has begun to arrive: the operation waits briefly
// for it to end, but where the peer stalls for longer, MPI may still write to the output, or read
// the input, as long as the process lives. So keep these buffers, or end the process.
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp {

// Throws std::invalid_argument, on all ranks alike, where they aren't each an MPI rank, or one's
// program started MPI with a thread level that several groups can't use. MPI is started here unless
// the program did that; this waits for all ranks of mpirun, in the group or not, without a
// deadline.
std::unique_ptr<Backend> MakeMpiBackend(const Meeting& meeting);

}  // namespace ddp
