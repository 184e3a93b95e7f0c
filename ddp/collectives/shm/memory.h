// Memory that other processes of this host can map: an anonymous file, of which nothing is left
// when its last user ends, however it ends. Its owner keeps the descriptor open, others find it
// under /proc/PID/fd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "ddp/collectives/shm/process.h"
#include "ddp/file_descriptor.h"

namespace ddp::shm {

// Mapped memory, readable and writable, shared with all who map the same file.
class Mapping {
 public:
  Mapping() = default;
  // Maps the file's first bytes. Throws std::system_error.
  Mapping(int fd, int64_t num_bytes);
  // Takes over what Release gave.
  Mapping(std::byte* data, int64_t num_bytes) : data_(data), num_bytes_(num_bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), num_bytes_(other.num_bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_), std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return data_; }
  int64_t num_bytes() const { return num_bytes_; }
  std::byte* Release() { return std::exchange(data_, nullptr); }

 private:
  std::byte* data_ = nullptr;
  int64_t num_bytes_ = 0;
};

// How others find some memory while its owner has it. Travels as bytes.
struct MemoryName {
  uint64_t device = 0;
  uint64_t inode = 0;    // no other memory of this boot has it
  uint64_t address = 0;  // in its owner
  int64_t num_bytes = 0;
  int32_t fd = -1;  // of its owner
  int32_t unused = 0;

  friend bool operator==(const MemoryName&, const MemoryName&) = default;
};

struct SharedMemory {
  FileDescriptor file;
  Mapping mapping;
  MemoryName name;
};

// Zeros. `reserve`: takes the pages now, all of them, rather than when they are touched. Throws
// std::system_error.
SharedMemory CreateMemory(int64_t num_bytes, bool reserve);

// Whether `owner` has the memory. False too where this process may not look.
bool HasMemory(const Process& owner, const MemoryName& name);

// The file of memory that `owner` has; not open when it hasn't. Throws std::system_error.
FileDescriptor OpenMemory(const Process& owner, const MemoryName& name);

}  // namespace ddp::shm
