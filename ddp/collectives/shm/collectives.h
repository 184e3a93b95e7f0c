// Collectives: the operations that all ranks of a group do together.
//
// Each begins with an exchange of slots: every rank posts its Call, and compares those of the
// others. A small operation's data travels in the slots as well, and that is all: on two processors
// it costs one transfer of a cache line each way. That of a larger one follows in rounds
// (rounds.h).
#pragma once

#include <cstdint>

#include "ddp/collectives/operation.h"
#include "ddp/collectives/shm/geometry.h"
#include "ddp/collectives/shm/regions.h"
#include "ddp/collectives/shm/rounds.h"
#include "ddp/collectives/shm/segment.h"
#include "ddp/collectives/shm/waiter.h"
#include "ddp/duration.h"

namespace ddp::shm {

class Collectives {
 public:
  // All must outlive the collectives.
  Collectives(Segment& segment, int rank, Waiter& waiter, const Regions& regions);

  // As Backend's.
  bool Post(const Operation& operation, const Call& call);
  void Run(const Operation& operation, const Call& call, Deadline deadline);

 private:
  // Whether what each rank gives travels in the slots.
  bool FitsSlot(const Geometry& geometry) const;
  // Whether all peers have read what this rank's next slot last held.
  bool NextSlotIsFree();
  void AwaitNextSlot(Deadline deadline);
  void FillNextSlot(const Geometry& geometry);
  void PostNextSlot(const Call& call);
  // Ahead of an operation like the one that has just run, while the caller does something else.
  void FetchNextSlot(int64_t num_bytes);
  // Returns when all ranks have come to the operation that runs next.
  void AwaitSlots(Deadline deadline);
  void FetchPeersPayloads(const Geometry& geometry);
  void CompareCalls(const Call& call);
  void TakeFromSlots(const Operation& operation, const Geometry& geometry);

  Segment& segment_;
  const int rank_;
  const int size_;
  Waiter& waiter_;
  const Regions& regions_;
  Rounds rounds_;
  uint32_t num_posted_ = 0;           // operations whose slot this rank has posted
  uint32_t num_run_ = 0;              // operations that this rank has completed
  uint32_t completed_by_all_ = 0;     // as far as this rank knows
  std::vector<const void*> sources_;  // arguments of Reduce
};

}  // namespace ddp::shm
