#include "ops/tensor/small_blocks.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace ops {
namespace {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kNumClasses = kMaxSmallBytes / kCacheLineBytes;
constexpr int kMaxIdle = 256;  // blocks of a class that wait in one thread
constexpr int kBatch = 64;     // blocks that move between a thread and the shared lists

// Sizes of up to `lines` cache lines share a class.
size_t ClassOf(size_t num_bytes) { return num_bytes == 0 ? 0 : (num_bytes - 1) / kCacheLineBytes; }

// Blocks chained through their first bytes.
class FreeList {
 public:
  bool empty() const { return first_ == nullptr; }
  int size() const { return size_; }

  void Push(void* block) {
    first_ = new (block) Link{first_};
    ++size_;
  }
  void* Pop() {
    --size_;
    return std::exchange(first_, first_->next);
  }
  // Moves up to `count` blocks to `to`.
  void MoveTo(FreeList& to, int count) {
    for (; count > 0 && !empty(); --count) to.Push(Pop());
  }

 private:
  struct Link {
    Link* next;
  };
  Link* first_ = nullptr;
  int size_ = 0;
};

// What all threads share. Never destroyed: blocks are freed until the very end of the process.
class SharedBlocks {
 public:
  static SharedBlocks& OfProcess() {
    static SharedBlocks& blocks = *new SharedBlocks;
    return blocks;
  }

  void Give(size_t size_class, FreeList& blocks, int count) {
    const std::lock_guard lock(mutex_);
    blocks.MoveTo(lists_[size_class], count);
  }

  void Take(size_t size_class, FreeList& blocks, int count) {
    const std::lock_guard lock(mutex_);
    lists_[size_class].MoveTo(blocks, count);
  }

 private:
  std::mutex mutex_;
  FreeList lists_[kNumClasses];
};

// Set when the thread's lists have gone; a block may still be freed after that.
thread_local bool lists_have_gone = false;

class ThreadBlocks {
 public:
  ~ThreadBlocks() {
    for (size_t i = 0; i < kNumClasses; ++i) {
      SharedBlocks::OfProcess().Give(i, lists_[i], lists_[i].size());
    }
    lists_have_gone = true;
  }

  void* Allocate(size_t size_class) {
    FreeList& list = lists_[size_class];
    if (list.empty()) SharedBlocks::OfProcess().Take(size_class, list, kBatch);
    return list.empty() ? FromSystem(size_class) : list.Pop();
  }

  void Free(size_t size_class, void* block) {
    FreeList& list = lists_[size_class];
    list.Push(block);
    if (list.size() > kMaxIdle) SharedBlocks::OfProcess().Give(size_class, list, kBatch);
  }

  static void* FromSystem(size_t size_class) {
    void* block = std::aligned_alloc(kCacheLineBytes, (size_class + 1) * kCacheLineBytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }

 private:
  FreeList lists_[kNumClasses];
};

ThreadBlocks& OfThisThread() {
  thread_local ThreadBlocks blocks;
  return blocks;
}

}  // namespace

void* AllocateSmallBlock(size_t num_bytes) {
  if (num_bytes > kMaxSmallBytes) return ::operator new(num_bytes);
  const size_t size_class = ClassOf(num_bytes);
  return lists_have_gone ? ThreadBlocks::FromSystem(size_class)
                         : OfThisThread().Allocate(size_class);
}

void FreeSmallBlock(void* block, size_t num_bytes) noexcept {
  if (num_bytes > kMaxSmallBytes) return ::operator delete(block);
  const size_t size_class = ClassOf(num_bytes);
  if (lists_have_gone) {
    FreeList one;
    one.Push(block);
    SharedBlocks::OfProcess().Give(size_class, one, 1);
  } else {
    OfThisThread().Free(size_class, block);
  }
}

}  // namespace ops
