// BatchMaker: any batch of any epoch, made on the calling thread. What DataLoader and its
// prefetch thread have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ddp/data/dataset.h"
#include "ddp/data/sampler.h"

namespace ddp {

using Collate = std::function<Batch(std::span<const Example>)>;

class BatchMaker {
 public:
  // An epoch that was begun already, by any number of ranks.
  struct Begun {
    int64_t epoch = 0;
    int64_t consumed = 0;  // examples of all ranks together
  };

  // `collate` may be null. The dataset must outlive this. Throws what DataLoader's constructor
  // promises.
  BatchMaker(const Dataset& dataset, const DistributedSampler& sampler, int64_t batch_size,
             bool drop_last, Collate collate, const Begun& begun);

  // Batches in an epoch; in the one that was begun, those that are left.
  int64_t num_batches(int64_t epoch) const {
    return epoch == begun_.epoch ? num_left_batches_ : num_batches_;
  }

  // Batch `index`, of those that num_batches counts, of `epoch`; fast when the epoch is that of the
  // call before. Throws what the dataset throws.
  Batch Make(int64_t epoch, int64_t index);

 private:
  const Dataset& dataset_;
  DistributedSampler sampler_;
  int64_t batch_size_;
  Begun begun_;
  int64_t num_batches_;
  int64_t num_left_batches_;
  Collate collate_;

  std::vector<int64_t> order_;  // of the examples in epoch_
  int64_t epoch_ = -1;
};

}  // namespace ddp
