// Chain: operations in which each rank talks to its neighbours only, rank - 1 and rank + 1, for
// groups of so many ranks that not all of them can be connected to each other.
//
// Reductions go up the chain: each rank adds its values to the sums of those below, so they are
// summed in rank order. The last rank has the result, which comes back down. Both ways data travels
// in pieces, so that all ranks work at the same time.
#pragma once

#include <cstddef>

#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/operation.h"
#include "ddp/collectives/scratch.h"

namespace ddp {

class Chain {
 public:
  explicit Chain(Transport* transport) : transport_(transport) {}

  // Whether an operation of this kind can run here.
  static bool Does(OperationKind kind);

  // When the neighbours agree.
  void Run(const Operation& operation, Deadline deadline);

 private:
  void Broadcast(const Buffer& buffer, int root, Deadline deadline);
  void AllReduce(const Operation& operation, Deadline deadline);

  Transport* const transport_;
  Scratch stages_;
  Scratch input_copy_;
  Scratch unwanted_;
};

}  // namespace ddp
