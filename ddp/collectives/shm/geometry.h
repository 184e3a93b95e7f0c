// Geometry: which elements of whose input go where in whose output: every operation, seen as ranks
// that give blocks to each other.
#pragma once

#include <cstdint>
#include <vector>

#include "ddp/collectives/operation.h"

namespace ddp::shm {

class Geometry {
 public:
  // `operation` and `call` are those of `rank` of `size`, and must outlive the geometry.
  Geometry(const Operation& operation, const Call& call, int rank, int size)
      : operation_(operation), call_(call), rank_(rank), size_(size) {}

  // Whether `from` has an input, and whether `to` gets an output.
  bool Gives(int from) const;
  bool Takes(int to) const;
  // Whether outputs are reductions of the blocks given, and whether they go to more ranks than the
  // one that the blocks were given to, which then works for the others.
  bool reduces() const;
  bool spreads_results() const;
  // Whether a rank gives all others the same block.
  bool gives_one_block() const;
  // Whether the blocks are each pair's own affair: what `from` gives `to` is only known to them.
  bool is_private() const;

  // Upper bound of the bytes that any rank gives, the same on all ranks. Not where is_private().
  int64_t max_given_bytes() const;
  // This rank's own input: the output of operations that have only that.
  const Buffer& input() const;

  // What `from` gives `to`, in elements of its input. Where is_private(), `from` is this rank.
  Block Given(int from, int to) const;
  // Where in this rank's output that is which `from` gives.
  Block Taken(int from) const;
  // The slice of the buffer that `rank` reduces for the others, in whole cache lines.
  Block Slice(int rank) const;
  // The most that any rank gives any other. Not where is_private().
  int64_t max_block() const;

 private:
  // A block of a buffer with one for each rank, whose sizes all ranks know.
  Block SharedBlock(int rank) const;
  const std::vector<int64_t>& counts() const;

  const Operation& operation_;
  const Call& call_;
  const int rank_;
  const int size_;
};

}  // namespace ddp::shm
