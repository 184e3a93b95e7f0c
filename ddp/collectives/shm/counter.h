// Counter: a number in shared memory that one rank raises and others wait for.
//
// Raising it takes no fence and no system call while nobody sleeps: whoever goes to sleep makes the
// kernel put a barrier into all running threads first (membarrier), so either the sleeper sees the
// new value or the writer sees the sleeper. Where the kernel can't, a sleep may last its full
// limit.
//
// Counters wrap; values that are compared lie less than 2^31 apart. What was written before Raise
// is visible to whoever sees the value.
#pragma once

#include <atomic>
#include <cstdint>

#include "ddp/duration.h"

namespace ddp::shm {

class Counter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  bool HasReached(uint32_t value) const { return static_cast<int32_t>(this->value() - value) >= 0; }

  // By the one rank whose counter it is.
  void Raise(uint32_t value) {
    value_.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (num_sleepers_.load(std::memory_order_relaxed) != 0) Wake();
  }
  // By any rank: one more.
  void Increment() {
    value_.fetch_add(1, std::memory_order_acq_rel);
    if (num_sleepers_.load(std::memory_order_relaxed) != 0) Wake();
  }

  // Returns when the value isn't `seen`, after Wake, after `limit`, or for no reason.
  void Sleep(uint32_t seen, Duration limit);
  // Ends all sleeps, whatever the value.
  void Wake();

 private:
  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> num_sleepers_ = 0;
};
static_assert(sizeof(Counter) == 8 && std::atomic<uint32_t>::is_always_lock_free);

// Once in each process whose threads raise counters, before they do.
void JoinBarriers();

}  // namespace ddp::shm
