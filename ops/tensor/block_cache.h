// Memory blocks that keep coming back. A training step allocates the same large tensors as the one
// before; given back to the system in between, their pages would be mapped and cleared again each
// time, which costs more than many a kernel. So blocks that are freed wait here for the next
// allocation of their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ops {

// Threads: any may call.
class BlockCache {
 public:
  // At most `max_idle_bytes` wait; beyond, those that have waited longest go back to the system.
  explicit BlockCache(int64_t max_idle_bytes) : max_idle_bytes_(max_idle_bytes) {}
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // A block of at least `num_bytes`, not initialised, on a cache line. Throws std::bad_alloc.
  std::byte* Allocate(int64_t num_bytes);
  // Takes back a block that was allocated here with the same `num_bytes`.
  void Free(std::byte* block, int64_t num_bytes) noexcept;

  int64_t idle_bytes() const;

 private:
  struct Block {
    std::byte* start;
    int64_t num_bytes;
  };

  mutable std::mutex mutex_;
  std::vector<Block> idle_;  // the one that has waited longest first
  int64_t idle_bytes_ = 0;
  const int64_t max_idle_bytes_;
};

}  // namespace ops
