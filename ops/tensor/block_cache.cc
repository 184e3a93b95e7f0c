#include "ops/tensor/block_cache.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace ops {
namespace {

constexpr int64_t kCacheLineBytes = 64;

// Sizes are rounded up to eight steps an octave, so that nearly equal ones share blocks. What is
// never touched takes no memory.
int64_t RoundUp(int64_t num_bytes) {
  if (num_bytes > INT64_MAX / 2) throw std::bad_alloc();
  const auto octave =
      std::bit_floor(static_cast<uint64_t>(std::max(num_bytes, 8 * kCacheLineBytes)));
  const auto step = static_cast<int64_t>(octave / 8);
  return (num_bytes + step - 1) / step * step;
}

std::byte* FromSystem(int64_t num_bytes) {
  void* block = std::aligned_alloc(kCacheLineBytes, num_bytes);
  if (block == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

}  // namespace

BlockCache::~BlockCache() {
  for (const Block& block : idle_) std::free(block.start);
}

std::byte* BlockCache::Allocate(int64_t num_bytes) {
  num_bytes = RoundUp(num_bytes);
  {
    const std::lock_guard lock(mutex_);
    // From the end: what was freed last may still be in the CPU's caches.
    const auto found =
        std::ranges::find(idle_.rbegin(), idle_.rend(), num_bytes, &Block::num_bytes);
    if (found != idle_.rend()) {
      std::byte* const start = found->start;
      idle_.erase(std::next(found).base());
      idle_bytes_ -= num_bytes;
      return start;
    }
  }
  return FromSystem(num_bytes);
}

void BlockCache::Free(std::byte* block, int64_t num_bytes) noexcept {
  num_bytes = RoundUp(num_bytes);
  if (num_bytes > max_idle_bytes_) {
    std::free(block);
    return;
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back({block, num_bytes});
  idle_bytes_ += num_bytes;
  while (idle_bytes_ > max_idle_bytes_) {
    std::free(idle_.front().start);
    idle_bytes_ -= idle_.front().num_bytes;
    idle_.erase(idle_.begin());
  }
}

int64_t BlockCache::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

}  // namespace ops
