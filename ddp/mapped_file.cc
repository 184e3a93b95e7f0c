#include "ddp/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "ddp/file_descriptor.h"

namespace ddp {
namespace {

[[noreturn]] void ThrowReadError(const std::string& path, int error = errno) {
  throw std::system_error(error, std::generic_category(), "can't read " + path);
}

}  // namespace

MappedFile MapFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (!file.is_open() || fstat(file.get(), &status) != 0) ThrowReadError(path);
  if (S_ISDIR(status.st_mode)) ThrowReadError(path, EISDIR);
  const int64_t num_bytes = status.st_size;
  if (num_bytes == 0) return {};  // there is nothing to map
  void* const start = mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (start == MAP_FAILED) ThrowReadError(path);
  return {ops::Memory(static_cast<std::byte*>(start),
                      [num_bytes](std::byte* bytes) { munmap(bytes, num_bytes); }),
          num_bytes};
}

}  // namespace ddp
