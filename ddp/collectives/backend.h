// Backend: how the bytes of a group's operations travel. The group (backend_group.h) checks
// arguments, numbers and queues operations, and tells why they failed; a backend runs one at a
// time.
//
// Every operation compares the ranks' Calls before any of them uses a peer's data, and gives the
// bits that reduce.h says.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/collectives/operation.h"
#include "ddp/collectives/trouble.h"
#include "ddp/duration.h"
#include "ops/tensor/tensor.h"

namespace ddp {

class Backend {
 public:
  virtual ~Backend() = default;

  // Does this rank's part of a collective and returns when its output is complete and its input may
  // be written again. Throws PeerTrouble, Disagreement, Stopped; any other exception is trouble of
  // this rank's own. After a throw nothing else is run. One thread at a time.
  virtual void Run(const Operation& operation, const Call& call, Deadline deadline) = 0;

  // Sends and receives, all at the same time. Between two ranks they meet in order; one that finds
  // another size or dtype is a Disagreement.
  virtual void Exchange(std::span<const Operation> operations, Deadline deadline) = 0;

  // Gives this rank's part of a small operation to the peers, if that can be done at once and
  // without waiting; Run with the same arguments then takes theirs. Between the two only further
  // calls of Post come. False: nothing happened. Runs on the caller's thread, never at the same
  // time as Run.
  virtual bool Post(const Operation& operation, const Call& call) {
    static_cast<void>(operation), static_cast<void>(call);
    return false;
  }

  // Memory that this backend reaches best; lives as long as its last user, beyond the backend.
  virtual ops::Memory Allocate(int64_t num_bytes) = 0;

  // Ends what runs now and all that comes later with Stopped. Safe from any thread, at any time.
  virtual void Stop() = 0;
  // Lets peers notice, at once, that this rank takes no further part. After Stop.
  virtual void Close() = 0;
};

}  // namespace ddp
