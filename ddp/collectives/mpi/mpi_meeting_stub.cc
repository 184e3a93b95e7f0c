#include <stdexcept>

#include "ddp/collectives/mpi/mpi_meeting.h"

namespace ddp {

MeetingPoint MeetOverMpi(int, Duration) {
  throw std::invalid_argument(
      "MPI was left out when this library was built (DDP_MPI=0); ranks can meet at a host and "
      "port");
}

}  // namespace ddp
