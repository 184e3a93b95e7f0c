#include "ddp/collectives/shm/regions.h"

#include <fcntl.h>

#include <algorithm>

namespace ddp::shm {

ops::Memory Regions::Allocate(int64_t num_bytes) {
  SharedMemory memory = CreateMemory(std::max<int64_t>(num_bytes, 1), /*reserve=*/true);
  std::byte* const data = memory.mapping.data();
  std::lock_guard lock(mutex_);
  regions_.emplace(data, std::move(memory));
  return ops::Memory(data,
                     [regions = shared_from_this()](std::byte* data) { regions->Free(data); });
}

void Regions::Free(std::byte* data) {
  std::lock_guard lock(mutex_);
  const auto region = regions_.find(data);
  const SharedMemory& memory = region->second;
  // Peers may keep their mappings for a while; the pages go back now.
  fallocate(memory.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
            memory.name.num_bytes);
  regions_.erase(region);
  num_freed_.fetch_add(1, std::memory_order_relaxed);
}

Placement Regions::Find(const void* data, int64_t num_bytes) const {
  const std::byte* const begin = static_cast<const std::byte*>(data);
  std::lock_guard lock(mutex_);
  auto region = regions_.upper_bound(begin);
  if (region == regions_.begin()) return {};
  --region;
  const int64_t offset = begin - region->first;
  if (offset + num_bytes > region->second.name.num_bytes) return {};
  return {region->second.name, offset};
}

std::byte* PeerRegions::Find(const Placement& placement, uint32_t num_freed) {
  const MemoryName& name = placement.memory;
  if (num_freed != num_freed_) DropFreed();
  num_freed_ = num_freed;
  auto region = regions_.find(name.inode);
  if (region == regions_.end()) {
    const FileDescriptor file = OpenMemory(peer_, name);
    if (!file.is_open()) return nullptr;
    region = regions_.emplace(name.inode, Region{name, Mapping(file.get(), name.num_bytes)}).first;
  }
  return region->second.mapping.data() + placement.offset;
}

void PeerRegions::DropFreed() {
  std::erase_if(regions_,
                [&](const auto& region) { return !HasMemory(peer_, region.second.name); });
}

}  // namespace ddp::shm
