// FileDescriptor: owns a descriptor and closes it. What is opened here isn't for programs that are
// started later (O_CLOEXEC).
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

// Throws std::system_error; where descriptors have run out, that says where their limit is set.
[[noreturn]] void ThrowSystemError(int error, const char* what);

// Writes all of `text`, in one piece where the system takes it so, and waits for room. Returns
// false, with errno, on an error, such as a full disk.
bool WriteAll(int fd, std::string_view text);

}  // namespace launch
