#include "ops/cpu/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace ops::cpu {
namespace {

// About 20 microseconds: longer than the gap between two kernels of a step.
constexpr int kSpins = 1000;

int NumUsableCores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Returns when `atomic` no longer holds `old`: spins first, then sleeps in a futex.
void WaitWhileEqual(const std::atomic<uint32_t>& atomic, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (atomic.load(std::memory_order_acquire) != old) return;
    __builtin_ia32_pause();
  }
  atomic.wait(old, std::memory_order_acquire);
}

constinit thread_local ThreadPool* pool_of_this_thread = nullptr;

}  // namespace

// A job is open while its caller works on it. Workers join an open job by counting themselves in
// `state`; the caller closes it when no chunk is left, and waits for those who joined. A worker
// that wakes too late finds it closed, and nobody has waited for it.
struct ThreadPool::Impl {
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  int spins = 0;  // none where the threads outnumber the cores: others need the core
  std::atomic<uint32_t> state{0};  // kOpen | number of workers in the job
  std::atomic<uint32_t> epoch{0};  // counts jobs; workers sleep on it
  std::atomic<bool> stopping{false};

  // A thread takes the chunks of its own share in turn, and then what others have left of theirs.
  // So it meets the part of a tensor again that the loop before left in its core's cache.
  struct alignas(64) Share {
    std::atomic<int64_t> next_chunk{0};
    int64_t end = 0;
  };

  // The job: written by the caller while `state` is 0.
  const absl::FunctionRef<void(int64_t)>* body = nullptr;
  std::vector<Share> shares;  // of the caller, then of the workers
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // of the one that set `failed`

  std::vector<std::thread> workers;

  explicit Impl(int num_threads) : shares(num_threads) {}

  ~Impl() {
    stopping.store(true, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void RunShare(Share& share) {
    for (int64_t chunk;
         (chunk = share.next_chunk.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
      (*body)(chunk);
    }
  }

  void RunChunks(size_t thread) {
    try {
      for (size_t i = 0; i < shares.size(); ++i) RunShare(shares[(thread + i) % shares.size()]);
    } catch (...) {
      for (Share& share : shares) share.next_chunk.store(share.end, std::memory_order_relaxed);
      if (!failed.exchange(true, std::memory_order_relaxed)) error = std::current_exception();
    }
  }

  bool Join() {
    uint32_t seen = state.load(std::memory_order_relaxed);
    while (seen & kOpen) {
      if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void Leave() {
    if (state.fetch_sub(1, std::memory_order_release) == 1) state.notify_one();
  }

  void Work(size_t thread) {
    for (uint32_t seen = 0;;) {
      WaitWhileEqual(epoch, seen, spins);
      seen = epoch.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_relaxed)) return;
      if (!Join()) continue;
      RunChunks(thread);
      Leave();
    }
  }

  void Open(int64_t chunks, const absl::FunctionRef<void(int64_t)>& function) {
    body = &function;
    const auto num_shares = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < num_shares; ++i) {
      shares[i].next_chunk.store(chunks * i / num_shares, std::memory_order_relaxed);
      shares[i].end = chunks * (i + 1) / num_shares;
    }
    failed.store(false, std::memory_order_relaxed);
    state.store(kOpen, std::memory_order_release);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }

  void CloseAndWait() {
    uint32_t inside = state.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    while (inside != 0) {
      WaitWhileEqual(state, inside, spins);
      inside = state.load(std::memory_order_acquire);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads < 1) {
    throw std::invalid_argument(
        fmt::format("a thread pool needs at least 1 thread, got {}", num_threads));
  }
  impl_ = std::make_unique<Impl>(num_threads);
  impl_->spins = num_threads <= NumUsableCores() ? kSpins : 0;
  for (size_t i = 1; i < impl_->shares.size(); ++i) {
    impl_->workers.emplace_back([impl = impl_.get(), i] { impl->Work(i); });
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::num_threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::Run(int64_t num_chunks, absl::FunctionRef<void(int64_t chunk)> body) {
  impl_->Open(num_chunks, body);
  impl_->RunChunks(0);
  impl_->CloseAndWait();
  if (impl_->failed.load(std::memory_order_relaxed)) {
    std::rethrow_exception(std::exchange(impl_->error, nullptr));
  }
}

ScopedThreadPool::ScopedThreadPool(ThreadPool* pool)
    : previous_(std::exchange(pool_of_this_thread, pool)) {}

ScopedThreadPool::~ScopedThreadPool() { pool_of_this_thread = previous_; }

namespace internal {

void ForEachChunk(int64_t count, int64_t chunk, absl::FunctionRef<void(int64_t, int64_t)> body) {
  const auto run_chunk = [&](int64_t i) { body(i * chunk, std::min((i + 1) * chunk, count)); };
  const int64_t num_chunks = (count + chunk - 1) / chunk;
  ThreadPool* const pool = pool_of_this_thread;
  if (pool == nullptr) {
    for (int64_t i = 0; i < num_chunks; ++i) run_chunk(i);
    return;
  }
  const ScopedThreadPool no_pool_within(nullptr);  // loops within a chunk stay on its thread
  pool->Run(num_chunks, run_chunk);
}

}  // namespace internal
}  // namespace ops::cpu
