#include "launch/agent/file_descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace launch {
namespace {

int CheckedCall(int result, const char* what) {
  if (result < 0) ThrowSystemError(errno, what);
  return result;
}

// Moves a descriptor out of the place of a standard stream that this process was started without:
// a child's streams are put there.
FileDescriptor AboveStandardStreams(int fd) {
  FileDescriptor owner(fd);
  if (fd > STDERR_FILENO) return owner;
  return FileDescriptor(
      CheckedCall(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), "fcntl F_DUPFD_CLOEXEC"));
}

}  // namespace

Pipe MakePipe() {
  int ends[2];
  CheckedCall(pipe2(ends, O_CLOEXEC), "pipe2");
  return {AboveStandardStreams(ends[0]), AboveStandardStreams(ends[1])};
}

FileDescriptor OpenNull() {
  return AboveStandardStreams(CheckedCall(open("/dev/null", O_RDWR | O_CLOEXEC), "open /dev/null"));
}

void SetNonBlocking(const FileDescriptor& fd) {
  const int flags = CheckedCall(fcntl(fd.get(), F_GETFL), "fcntl F_GETFL");
  CheckedCall(fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK), "fcntl F_SETFL");
}

void ThrowSystemError(int error, const char* what) {
  const char* advice = error == EMFILE ? " (`ulimit -n` is the limit of a process)" : "";
  throw std::system_error(error, std::generic_category(), what + std::string(advice));
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(written);
    } else if (errno == EAGAIN) {
      pollfd room = {fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace launch
