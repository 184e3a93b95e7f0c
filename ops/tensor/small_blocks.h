// Memory for what is small and comes back in every training step: tensors' headers, nodes of the
// tape, their reference counts, scalars. Freed blocks wait in lists of their thread, so that after
// the first steps neither the heap nor a lock is touched.
//
//   auto node = std::allocate_shared<Node>(SmallBlockAllocator<Node>(), ...);
//
// Blocks are never given back to the system: there are as many as were ever in use at once. Those
// that one thread makes and another frees find their way back through a list that all share.
// Threads: any may call.
#pragma once

#include <cstddef>

namespace ops {

// Larger ones come from the heap.
inline constexpr size_t kMaxSmallBytes = 2048;

// A block on a cache line of its own, not initialised. Throws std::bad_alloc.
void* AllocateSmallBlock(size_t num_bytes);
// Takes back a block that was allocated with the same `num_bytes`.
void FreeSmallBlock(void* block, size_t num_bytes) noexcept;

// The same for containers and std::allocate_shared.
template <class T>
struct SmallBlockAllocator {
  using value_type = T;

  SmallBlockAllocator() = default;
  template <class Other>
  SmallBlockAllocator(const SmallBlockAllocator<Other>&) {}  // NOLINT: conversion is its purpose

  T* allocate(size_t count) { return static_cast<T*>(AllocateSmallBlock(count * sizeof(T))); }
  void deallocate(T* block, size_t count) noexcept { FreeSmallBlock(block, count * sizeof(T)); }

  friend bool operator==(const SmallBlockAllocator&, const SmallBlockAllocator&) { return true; }
};

}  // namespace ops
