#include "ddp/atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ddp {
namespace {

[[noreturn]] void ThrowWriteError(const std::string& path, int error = errno) {
  throw std::system_error(error, std::generic_category(), "can't write " + path);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
  file_ = FileDescriptor(mkostemp(temporary_.data(), O_CLOEXEC));
  if (!file_.is_open()) {
    temporary_.clear();
    ThrowWriteError(path_);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(written);
    } else if (errno != EINTR) {
      ThrowWriteError(path_);
    }
  }
}

void AtomicFile::Commit() {
  fchmod(file_.get(), 0644);  // mkostemp makes it private
  if (fsync(file_.get()) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    ThrowWriteError(path_);
  }
  temporary_.clear();
}

void WriteFileAtomically(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

void SyncFolder(const std::string& path) {
  const FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() || fsync(folder.get()) != 0) ThrowWriteError(path);
}

void CheckWritable(const std::string& path) {
  if (path.empty()) return;
  if (path.ends_with('/') || std::filesystem::is_directory(path)) ThrowWriteError(path, EISDIR);
  const std::string folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) ThrowWriteError(path);
}

}  // namespace ddp
