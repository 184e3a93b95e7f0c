// DataLoader: this rank's batches, one epoch after the other, made ahead of use by a thread.
//
//   DataLoader loader(dataset, sampler, {.batch_size = 64});
//   for (int epoch = 0; epoch < 3; ++epoch)
//     for (const Batch& batch : loader) Train(batch);   // each begin() starts the next epoch
//
// Epochs advance by themselves, so that forgetting to advance the sampler is impossible.
// The prefetch thread works ahead, across the end of the epoch; an exception that a dataset throws
// there is thrown by the loop, at the batch it belongs to; the batch after it comes next.
// The dataset must outlive the loader. One thread uses a loader,
// but for LimitWaits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

#include "ddp/data/batch_maker.h"
#include "ddp/data/dataset.h"
#include "ddp/data/sampler.h"
#include "ddp/duration.h"

namespace ddp {

// A batch didn't come in the time that LimitWaits allows.
class DataStalledError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct DataLoaderOptions {
  int64_t batch_size = 1;  // of this rank
  bool drop_last = false;  // leave out a last batch that is smaller
  // Makes a batch of examples; by default Dataset::GetBatch does.
  Collate collate = nullptr;
  // How many batches are made ahead, of small ones more (as many as 50 µs or 64 KiB hold count as
  // one); 0: no thread, each is made when it is asked for.
  int prefetch_batches = 8;
  int64_t first_epoch = 0;
  // Examples of the first epoch that the ranks, perhaps of another number, have had together: it
  // gives the rest of them. See sampler.h.
  int64_t first_epoch_consumed = 0;
};

class DataLoader {
 public:
  // Throws std::invalid_argument for a batch size below 1, or larger than this rank's examples
  // where drop_last would then leave no batch, for a sampler made for another number of examples,
  // and for more examples consumed than there are: the message has both numbers.
  DataLoader(const Dataset& dataset, const DistributedSampler& sampler,
             const DataLoaderOptions& options = {});
  ~DataLoader();

  // Batches in a whole epoch, and in this one: fewer where it had been begun.
  int64_t num_batches() const;
  int64_t num_batches(int64_t epoch) const;
  // The epoch that begin() started last; the one that it will start first before that.
  int64_t epoch() const;

  // The next batch of the running epoch; nothing at its end. The first call, and the one after an
  // end, start the next epoch.
  std::optional<Batch> Next();

  // For range-based for loops over one epoch. begin() leaves out what remains of an epoch that was
  // left early.
  class Iterator;
  Iterator begin();
  Iterator end();

  // From now on Next() throws DataStalledError where it waits longer than this for the prefetch
  // thread; also a Next() that waits already. Any thread may call it. Where batches are made when
  // they are asked for, it does nothing.
  void LimitWaits(Duration limit);

  // Seconds that Next() has waited for the prefetch thread, or spent making batches, in all.
  double wait_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One pass over a loader, in the sense that range-based for needs.
class DataLoader::Iterator {
 public:
  explicit Iterator(DataLoader* loader);  // null: the end
  const Batch& operator*() const { return *batch_; }
  const Batch* operator->() const { return &*batch_; }
  Iterator& operator++();
  bool operator!=(const Iterator& other) const {
    return batch_.has_value() != other.batch_.has_value();
  }

 private:
  DataLoader* loader_;
  std::optional<Batch> batch_;
};

}  // namespace ddp
