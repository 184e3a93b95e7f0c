#include "ddp/collectives/shm/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace ddp::shm {
namespace {

[[noreturn]] void ThrowSystemError(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

uint64_t InodeOf(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) ThrowSystemError("can't examine shared memory");
  return status.st_ino;
}

}  // namespace

Mapping::Mapping(int fd, int64_t num_bytes) : num_bytes_(num_bytes) {
  void* const start = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) {
    ThrowSystemError(fmt::format("can't map {} bytes of shared memory", num_bytes));
  }
  data_ = static_cast<std::byte*>(start);
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, num_bytes_);
}

SharedMemory CreateMemory(int64_t num_bytes, bool reserve) {
  FileDescriptor file(memfd_create("ddp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) ThrowSystemError("can't create shared memory");
  if (ftruncate(file.get(), num_bytes) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
      (reserve && fallocate(file.get(), 0, 0, num_bytes) != 0)) {
    ThrowSystemError(fmt::format("can't get {} bytes of shared memory", num_bytes));
  }
  Mapping mapping(file.get(), num_bytes);
  const MemoryName name{.inode = InodeOf(file.get()),
                        .address = reinterpret_cast<uint64_t>(mapping.data()),
                        .num_bytes = num_bytes,
                        .fd = file.get()};
  return {std::move(file), std::move(mapping), name};
}

FileDescriptor OpenMemory(const Process& owner, const MemoryName& name) {
  const std::string path = fmt::format("/proc/{}/fd/{}", owner.pid, name.fd);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT) return {};
    ThrowSystemError("can't open shared memory " + path);
  }
  // The number may mean another file by now.
  if (InodeOf(file.get()) != name.inode) return {};
  return file;
}

}  // namespace ddp::shm
