// DistributedSampler: which examples are this rank's, in which order.
//
// Each epoch the same permutation of all examples is drawn on every rank from (seed, epoch); rank r
// takes every world_size-th from position r, so global batch b of W ranks holds the same examples
// whatever W is. PyTorch's DistributedSampler deals the same way.
//
// An epoch that was begun can be gone on with by any number of ranks: where all of them together
// have had the first `consumed` examples of the permutation, the rest is dealt out in the same way.
// With as many ranks as before, each gets what it would have got.
#pragma once

#include <cstdint>
#include <vector>

namespace ddp {

struct DistributedSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  enum class Uneven {
    kPad,    // examples from the start are repeated, so that all ranks have equally many: training
    kDrop,   // the last examples, fewer than world_size, are left out
    kExact,  // every example exactly once; the first ranks may have one more: evaluation
  };
  Uneven uneven = Uneven::kPad;
};

class DistributedSampler {
 public:
  // Throws std::invalid_argument, with name and value, for a rank outside the world, an empty
  // dataset, and one of fewer than world_size examples that kDrop would leave nothing of.
  explicit DistributedSampler(int64_t dataset_size, const DistributedSamplerOptions& options = {});

  // This rank's examples of `epoch`, in order, after `consumed` ones of all ranks. Throws
  // std::invalid_argument unless 0 <= consumed < dataset_size().
  std::vector<int64_t> Indices(int64_t epoch, int64_t consumed = 0) const;
  // How many Indices() gives, the same for every epoch. 0 only where fewer examples than ranks are
  // left, for kExact and kDrop.
  int64_t num_examples(int64_t consumed = 0) const;

  // Examples of all ranks together, none repeated.
  int64_t dataset_size() const { return dataset_size_; }

 private:
  int64_t dataset_size_;
  DistributedSamplerOptions options_;
};

}  // namespace ddp
