#include "ddp/collectives/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "ddp/store/socket.h"

namespace ddp::shm {
namespace {

struct stat Examine(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) ThrowSystemError(errno, "can't examine shared memory");
  return status;
}

bool IsOf(const MemoryName& name, const struct stat& status) {
  return status.st_dev == name.device && status.st_ino == name.inode;
}

std::string PathOf(const Process& owner, const MemoryName& name) {
  return fmt::format("/proc/{}/fd/{}", owner.pid, name.fd);
}

}  // namespace

Mapping::Mapping(int fd, int64_t num_bytes) : num_bytes_(num_bytes) {
  void* const start = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) {
    ThrowSystemError(errno, fmt::format("can't map {} bytes of shared memory", num_bytes));
  }
  data_ = static_cast<std::byte*>(start);
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, num_bytes_);
}

SharedMemory CreateMemory(int64_t num_bytes, bool reserve) {
  FileDescriptor file(memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) ThrowSystemError(errno, "can't create shared memory");
  if (ftruncate(file.get(), num_bytes) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
      (reserve && fallocate(file.get(), 0, 0, num_bytes) != 0)) {
    ThrowSystemError(errno, fmt::format("can't get {} bytes of shared memory", num_bytes));
  }
  Mapping mapping(file.get(), num_bytes);
  const struct stat status = Examine(file.get());
  const MemoryName name{.device = status.st_dev,
                        .inode = status.st_ino,
                        .address = reinterpret_cast<uint64_t>(mapping.data()),
                        .num_bytes = num_bytes,
                        .fd = file.get()};
  return {std::move(file), std::move(mapping), name};
}

// The number may mean anything by now: a socket, a terminal, another's memory. Only what has been
// examined is opened.
bool HasMemory(const Process& owner, const MemoryName& name) {
  struct stat status;
  return stat(PathOf(owner, name).c_str(), &status) == 0 && IsOf(name, status);
}

FileDescriptor OpenMemory(const Process& owner, const MemoryName& name) {
  if (!HasMemory(owner, name)) return {};
  const std::string path = PathOf(owner, name);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!file.is_open()) {
    const int error = errno;
    if (!HasMemory(owner, name)) return {};
    ThrowSystemError(error, "can't open shared memory " + path);
  }
  // It may have changed since it was examined.
  if (!IsOf(name, Examine(file.get()))) return {};
  return file;
}

}  // namespace ddp::shm
