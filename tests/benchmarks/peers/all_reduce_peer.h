// What the all-reduce benchmarks of peers have in common: float32 sums in place, checked, then
// timed at each size, as collectives_bench does it. Rank 0 prints a JSON object a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace benchmarks {

// One rank of a peer. Each function throws or exits on an error.
class AllReducePeer {
 public:
  virtual ~AllReducePeer() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Where this rank's values are to lie; valid until the next call.
  virtual float* Buffer(int64_t num_elements) = 0;
  // Of the first elements of the buffer.
  virtual void AllReduce(int64_t num_elements) = 0;
};

// The arguments that all peers share: SIZES SECONDS, as in "4:64M 0.3" (see ParseSizes).
struct PeerArguments {
  std::string sizes;
  double seconds = 0;  // for each size, about
};

// Throws std::runtime_error when a sum is wrong.
void MeasureAllReduce(AllReducePeer& peer, const PeerArguments& arguments);

// Calls `run_rank` in `num_ranks` processes that share the memory mapped before; returns 0 if all
// ended well. The calling process must have no threads yet.
int ForkRanks(int num_ranks, const std::function<void(int rank)>& run_rank);

}  // namespace benchmarks
