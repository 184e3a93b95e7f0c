// Rounds: how the data of a large operation travels, once the ranks have agreed about it.
//
// Memory from Allocate is read and written where it lies. What lies elsewhere is staged: copied
// into the segment, a piece a round, small enough to stay in the cache. Each round a rank stages
// the next piece of its input, then consumes the present one of the others' inputs; in reductions
// it reduces its own slice for all, and then takes the results that the others have staged. So one
// rank copies while another calculates, and a rank may be a round ahead of the slowest.
//
// A place of the stage is used again two rounds later. By then everyone has consumed the input that
// was there (Stage waits for that), and has taken the results: whoever has staged a round has taken
// the results of the one before the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/collectives/operation.h"
#include "ddp/collectives/shm/geometry.h"
#include "ddp/collectives/shm/regions.h"
#include "ddp/collectives/shm/segment.h"
#include "ddp/collectives/shm/waiter.h"
#include "ddp/duration.h"

namespace ddp::shm {

// What a rank says about a large operation in its slot.
struct Announcement {
  Placement input;
  Placement output;

  // Elements by rank, of an operation whose blocks are each pair's own affair.
  int64_t* input_counts() { return reinterpret_cast<int64_t*>(this + 1); }
  int64_t* output_counts(int size) { return input_counts() + size; }
};

class Rounds {
 public:
  // All must outlive the rounds.
  Rounds(Segment& segment, int rank, Waiter& waiter, const Regions& regions);

  // Before this rank posts the slot of operation number `number`: fills in its announcement and
  // stages the first piece.
  void Begin(const Operation& operation, const Geometry& geometry, uint32_t number,
             Deadline deadline);
  // Then, when the slots of all ranks have come and agree.
  void Run();

 private:
  // The present operation; elements unless it says bytes.
  struct Present {
    const Operation* operation = nullptr;
    const Geometry* geometry = nullptr;
    uint32_t number = 0;
    int64_t element_bytes = 0;
    // What is staged for one rank lies this far from what is staged for the next.
    int64_t stride_bytes = 0;
    int64_t piece = 0;  // of each block, in one round
    int64_t num_rounds = 1;
    bool input_is_reachable = false;  // this rank's
    bool output_is_reachable = false;
    Deadline deadline;
  };

  Announcement& announcement(int rank) const;
  // Whether peers use memory of this rank's where it lies.
  bool exposes_memory() const;
  // What `from` gives this rank.
  Block GivenBy(int from) const;
  // The part of `block` that belongs to a round.
  Block PartOf(const Block& block, int64_t round) const;

  void PlanPieces();
  // Of an operation whose blocks are each pair's own affair. Throws Disagreement.
  void CompareCounts() const;
  int64_t MaxCount() const;
  // Returns whether all that peers need lies where they reach it.
  bool FindPeersMemory();
  std::byte* FindMemory(int rank, const Placement& placement);

  // `round` counts from the operation's first.
  void Stage(int64_t round);
  void Consume(int64_t round);
  // Where `part` of what `from` gives this rank lies.
  const std::byte* SourceOf(int from, const Block& part, uint32_t number) const;
  void ReduceBlocks(int64_t round);
  void TakeBlocks(int64_t round);
  void TakeResults(int64_t round);
  void AwaitConsumed(uint32_t num_rounds);

  Segment& segment_;
  const int rank_;
  const int size_;
  Waiter& waiter_;
  const Regions& regions_;
  std::vector<PeerRegions> peer_regions_;  // by rank; made when all have joined
  uint32_t num_rounds_ = 0;                // before the present operation
  Present present_;
  // By rank, of the present operation: inputs and outputs, null where they are staged.
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  // Arguments of Reduce.
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
};

}  // namespace ddp::shm
