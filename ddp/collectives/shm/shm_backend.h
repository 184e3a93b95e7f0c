// The shm backend: the ranks of one host, processes or threads, through shared memory. No socket,
// no file that could be left behind.
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp {

// After a failed operation, peers that haven't noticed yet may still read and write this rank's
// memory from Allocate: what it holds is undefined. Freeing it is safe nevertheless, also where a
// peer is a thread of the same process. Peers never access other memory of a rank's.
//
// Throws std::invalid_argument when a rank is on another host, TimeoutError and PeerLostError when
// rank 0 doesn't set up the memory.
std::unique_ptr<Backend> MakeShmBackend(const Meeting& meeting);

}  // namespace ddp
