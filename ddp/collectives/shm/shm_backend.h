// The shm backend: the ranks of one host, processes or threads, through shared memory. No socket,
// no file that could be left behind.
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp {

// Throws std::invalid_argument when a rank is on another host, TimeoutError and PeerLostError when
// rank 0 doesn't set up the memory.
std::unique_ptr<Backend> MakeShmBackend(const Meeting& meeting);

}  // namespace ddp
