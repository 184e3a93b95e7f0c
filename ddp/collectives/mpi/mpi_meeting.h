// From a program's own MPI communicator to a store where its ranks meet: for programs that use MPI
// already, whatever backend their group has.
#pragma once

#include "ddp/duration.h"
#include "ddp/store/meeting_point.h"

namespace ddp {

// `communicator` is a Fortran handle: MPI_Comm_c2f(MPI_COMM_WORLD). All of its ranks call this; its
// rank 0 holds the store. Throws std::invalid_argument when MPI isn't running or was left out of
// this build, what went wrong on rank 0 on every rank.
MeetingPoint MeetOverMpi(int communicator, Duration timeout);

// The same for all ranks that mpirun started, `world_size` as its variables have it. MPI is started
// here unless the program did that. Throws std::invalid_argument, too, where MPI sees another
// number: the mpirun of another MPI than this library's.
MeetingPoint MeetOverMpiWorld(int world_size, Duration timeout);

}  // namespace ddp
