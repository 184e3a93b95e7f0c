// Files that are replaced as a whole or not at all: readers see the old contents or the new, also
// when the process dies, or the disk fills up, in the middle.
//
//   AtomicFile file("weights.safetensors");
//   file.Write(header);
//   file.Write(values);
//   file.Commit();  // without it, the old file stays
#pragma once

#include <string>
#include <string_view>

#include "ddp/file_descriptor.h"

namespace ddp {

class AtomicFile {
 public:
  // What is written goes into a new file beside `path`. Each throws std::system_error with the
  // path.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::string_view bytes);
  // Brings everything to the disk, and puts the new file in the place of the old one.
  void Commit();

 private:
  const std::string path_;
  std::string temporary_;  // "" when it has gone or taken its place
  FileDescriptor file_;
};

// All of `text` as the file's contents.
void WriteFileAtomically(const std::string& path, std::string_view text);

// Brings to the disk which files a folder has, under which names. Throws std::system_error with the
// path.
void SyncFolder(const std::string& path);

// Throws std::system_error, with the path, when no file can be made there; "" is none. For telling
// so before hours of work, not after.
void CheckWritable(const std::string& path);

}  // namespace ddp
