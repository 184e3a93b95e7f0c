// Prefetcher: a thread that makes batches ahead of their use, epoch after epoch.
//
// Batches change hands in groups. A batch that takes long to make, or that is large, is a group of
// its own; of quick small ones a group holds as many as can be made in 50 µs, or 64 KiB. So
// whatever a batch costs, the hand-over costs little beside it: the lock is taken once a group,
// and the thread, asleep when enough groups are ready, is woken only when half of them are gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ddp/data/batch_maker.h"
#include "ddp/duration.h"

namespace ddp {

class Prefetcher {
 public:
  // Starts with the first batch of `first_epoch`, and works ahead up to `max_groups` (at least 1).
  // A whole epoch of `maker` must have batches.
  Prefetcher(BatchMaker maker, int64_t first_epoch, int max_groups);
  // Returns as soon as the batch that is being made is done.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, waiting for it if need be, or the exception that its making threw. Batches of
  // epochs before `epoch` are left out. Nothing where the wait took longer than it may.
  std::optional<Batch> Take(int64_t epoch);

  // How long Take waits, from now on. Any thread may call it.
  void LimitWaits(Duration limit);
  Duration wait_limit() const;

  // Seconds that Take has waited for the thread, in all.
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Made {
    int64_t epoch = 0;
    Batch batch;
    std::exception_ptr error;  // in place of the batch
  };
  using Group = std::vector<Made>;

  // The caller's side.
  Made* Next();  // null: the wait took too long
  bool TakeGroup();
  bool WaitForGroup(std::unique_lock<std::mutex>& lock);

  // The thread's side.
  void Run();
  Group MakeGroup();
  Made MakeOne();
  // Waits for room. Returns false when it's time to end.
  bool HandOver(Group group);

  const int max_groups_;

  // The thread's: what it makes next.
  BatchMaker maker_;
  int64_t epoch_;
  int64_t index_ = 0;

  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> first_wanted_epoch_;  // no need to finish those before it
  mutable std::mutex mutex_;
  std::deque<Group> ready_;                // guarded by mutex_
  Duration wait_limit_ = Duration::max();  // guarded by mutex_
  std::condition_variable has_group_;      // ready_ is not empty, or wait_limit_ has changed
  std::condition_variable has_room_;       // half of ready_ is gone, or stopping_

  // The caller's: the group it is working through, apart from what the thread writes.
  alignas(64) Group taken_;
  size_t next_ = 0;
  int64_t taking_epoch_;
  double wait_seconds_ = 0;

  std::thread thread_;
};

}  // namespace ddp
