// Files whose bytes are counted and checked: sizes and CRC-32 as zlib's crc32 calculates it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ddp/file_descriptor.h"

namespace ddp {

struct Checksum {
  int64_t num_bytes = 0;
  uint32_t crc32 = 0;

  bool operator==(const Checksum&) const = default;
};

// A new file. Each function throws std::system_error with the path.
class ChecksummedFile {
 public:
  // There must be none.
  explicit ChecksummedFile(const std::string& path);

  void Write(std::string_view bytes);
  // Brings it to the disk. Returns the checksum of what was written.
  Checksum Finish();

 private:
  const std::string path_;
  FileDescriptor file_;
  Checksum checksum_;
};

// Of a file as it is now. Throws std::system_error with the path.
Checksum ChecksumOf(const std::string& path);

}  // namespace ddp
