// FileDescriptor: owns a descriptor and closes it. Everything here opens with O_CLOEXEC.
#pragma once

#include <string_view>
#include <utility>

namespace launch {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void Close() { *this = FileDescriptor(); }

 private:
  int fd_ = -1;
};

struct Pipe {
  FileDescriptor read_end, write_end;
};

// Throws std::system_error, as all functions here that ask the system for something.
Pipe MakePipe();
FileDescriptor OpenNull();
void SetNonBlocking(const FileDescriptor& fd);

// Writes all of `text`, in one piece where the system takes it so. An error, such as a full disk,
// loses the text: there is nobody to tell.
void WriteAll(int fd, std::string_view text);

}  // namespace launch
