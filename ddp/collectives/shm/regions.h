// Regions: memory that a rank allocates where its peers can reach it, so that they read and write
// its elements where they lie.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ddp/collectives/shm/memory.h"
#include "ops/tensor/tensor.h"

namespace ddp::shm {

// Where a buffer lies, for peers; in no region when `memory` has no file. Travels as bytes.
struct Placement {
  MemoryName memory;
  int64_t offset = 0;

  bool is_reachable() const { return memory.fd >= 0; }
};

// Those of this rank. All functions may be called by several threads at once.
class Regions : public std::enable_shared_from_this<Regions> {
 public:
  // Zeros. The memory outlives this object. Throws std::system_error.
  ops::Memory Allocate(int64_t num_bytes);

  Placement Find(const void* data, int64_t num_bytes) const;
  // How many were freed so far: peers that see another number than before let go of them.
  uint32_t num_freed() const { return num_freed_.load(std::memory_order_relaxed); }

 private:
  void Free(std::byte* data);

  mutable std::mutex mutex_;
  std::map<const std::byte*, SharedMemory> regions_;  // by address; guarded by mutex_
  std::atomic<uint32_t> num_freed_ = 0;
};

// Those of a peer, mapped when they are first asked for. A peer that is a thread of this process is
// no exception: after a failure it may free memory that this rank still works on.
class PeerRegions {
 public:
  explicit PeerRegions(const Process& peer) : peer_(peer) {}

  // The memory at `placement`; null when the peer has freed it or has ended. May be accessed until
  // the next call, whatever the peer does. `num_freed` is what the peer has freed so far.
  std::byte* Find(const Placement& placement, uint32_t num_freed);

 private:
  void DropFreed();

  Process peer_;
  uint32_t num_freed_ = 0;
  struct Region {
    MemoryName name;
    Mapping mapping;
  };
  std::unordered_map<uint64_t, Region> regions_;  // by inode
};

}  // namespace ddp::shm
