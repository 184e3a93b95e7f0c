#include "ddp/collectives/shm/counter.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace ddp::shm {
namespace {

long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, word, operation, value, limit, nullptr, 0);
}

timespec ToTimespec(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
}

}  // namespace

void Counter::Sleep(uint32_t seen, Duration limit) {
  const timespec at_most = ToTimespec(limit);
  num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0);
  // The kernel compares the value once more.
  Futex(&value_, FUTEX_WAIT, seen, &at_most);
  num_sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Counter::Wake() { Futex(&value_, FUTEX_WAKE, INT_MAX, nullptr); }

void JoinBarriers() { syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0); }

}  // namespace ddp::shm
