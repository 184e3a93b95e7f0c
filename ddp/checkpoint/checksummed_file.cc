#include "ddp/checkpoint/checksummed_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

namespace ddp {
namespace {

// So that what is checked is still in the cache when it is written.
constexpr size_t kBlockBytes = 1 << 18;

[[noreturn]] void Throw(const char* what, const std::string& path) {
  throw std::system_error(errno, std::generic_category(), what + path);
}

void Add(std::string_view block, Checksum& checksum) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(block.data());
  checksum.crc32 = static_cast<uint32_t>(crc32_z(checksum.crc32, bytes, block.size()));
  checksum.num_bytes += static_cast<int64_t>(block.size());
}

}  // namespace

ChecksummedFile::ChecksummedFile(const std::string& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (!file_.is_open()) Throw("can't write ", path);
}

void ChecksummedFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view block = bytes.substr(0, kBlockBytes);
    const ssize_t written = write(file_.get(), block.data(), block.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Throw("can't write ", path_);
    Add(block.substr(0, written), checksum_);
    bytes.remove_prefix(written);
  }
}

Checksum ChecksummedFile::Finish() {
  if (fsync(file_.get()) != 0) Throw("can't write ", path_);
  file_.Close();
  return checksum_;
}

Checksum ChecksumOf(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) Throw("can't read ", path);
  std::vector<char> block(kBlockBytes);
  Checksum checksum;
  while (true) {
    const ssize_t count = read(file.get(), block.data(), block.size());
    if (count == 0) return checksum;
    if (count < 0 && errno != EINTR) Throw("can't read ", path);
    if (count > 0) Add({block.data(), static_cast<size_t>(count)}, checksum);
  }
}

}  // namespace ddp
