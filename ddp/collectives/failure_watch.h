// FailureWatch: while an operation of a group takes long, looks now and then whether another rank
// has said in the store that the group failed, and answers when one calls the roll. A rank that
// waits for a slow one learns so about a third that it has no connection to.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ddp/collectives/failure.h"
#include "ddp/duration.h"
#include "ddp/store/store.h"

namespace ddp {

class FailureWatch {
 public:
  // Answers for `rank`. `on_failure` is called on a thread of the watch, once at most.
  FailureWatch(std::shared_ptr<Store> store, int rank,
               std::function<void(const Failure&)> on_failure);
  ~FailureWatch();
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

  // Around each operation.
  void Begin(Clock::time_point now) {
    begun_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  void End() { begun_.store(kNothing, std::memory_order_relaxed); }

 private:
  static constexpr Clock::rep kNothing = 0;

  void Serve();
  // Returns the failure that the store tells of, if any.
  std::optional<Failure> Look();
  // Waits a little for a roll call, and answers it. Returns whether none has come.
  bool Listen();
  bool TakesLong() const;

  const std::shared_ptr<Store> store_;
  const int rank_;
  const std::function<void(const Failure&)> on_failure_;
  std::atomic<Clock::rep> begun_ = kNothing;  // the operation that runs
  bool has_answered_ = false;                 // of thread_
  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace ddp
