#include <stdexcept>

#include "ddp/collectives/mpi/mpi_meeting.h"

namespace ddp {

constexpr char kLeftOut[] =
    "MPI was left out when this library was built (DDP_MPI=0); ranks can meet at a host and port";

MeetingPoint MeetOverMpi(int, Duration) { throw std::invalid_argument(kLeftOut); }

MeetingPoint MeetOverMpiWorld(int, Duration) { throw std::invalid_argument(kLeftOut); }

}  // namespace ddp
