#include "launch/agent/output.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace launch {
namespace {

// Whether a write of up to PIPE_BUF bytes would not wait.
bool HasRoom(int fd) {
  pollfd room = {fd, POLLOUT, 0};
  return poll(&room, 1, 0) > 0;
}

// What to write at once: whole lines, or part of a line that is longer than that.
std::string_view FirstPiece(std::string_view text) {
  const std::string_view piece = text.substr(0, PIPE_BUF);
  const size_t last_break = piece.rfind('\n');
  return last_break == std::string_view::npos ? piece : piece.substr(0, last_break + 1);
}

}  // namespace

void Output::Write() {
  std::string_view rest = pending_;
  while (!rest.empty() && HasRoom(destination_)) {
    const std::string_view piece = FirstPiece(rest);
    const ssize_t written = write(destination_, piece.data(), piece.size());
    if (written >= 0) {
      rest.remove_prefix(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      rest = {};
    }
  }
  pending_.erase(0, pending_.size() - rest.size());
}

}  // namespace launch
