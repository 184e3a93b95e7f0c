#include "launch/agent/line_forwarder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launch/agent/terminal.h"

namespace launch {
namespace {

// A line longer than this is passed on in pieces.
constexpr size_t kLongestLine = 1 << 20;
// Chunks that a pipe can hold, at the system's highest default; whoever goes on writing into the
// pipe of a rank that has ended is not heard out.
constexpr int kMostChunksAtEnd = 16;

}  // namespace

LineForwarder::LineForwarder(FileDescriptor source, Output* output, LineOptions options)
    : source_(std::move(source)), output_(output), options_(std::move(options)) {
  SetNonBlocking(source_);
}

void LineForwarder::Forward() {
  if (!CanForward()) return;
  ReadOnce();
  PassOnLines();
}

void LineForwarder::Finish() {
  for (int i = 0; i < kMostChunksAtEnd && ReadOnce(); ++i) PassOnLines();
  if (!pending_.empty() && pending_.back() != '\n') pending_ += '\n';
  PassOnLines();
  source_.Close();
}

bool LineForwarder::ReadOnce() {
  if (!source_.is_open()) return false;
  std::array<char, 1 << 16> chunk;
  const ssize_t count = read(source_.get(), chunk.data(), chunk.size());
  if (count > 0) {
    pending_.append(chunk.data(), count);
    return true;
  }
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return errno == EINTR;
  source_.Close();
  if (!pending_.empty()) pending_ += '\n';
  return false;
}

void LineForwarder::PassOnLines() {
  const size_t last_break = pending_.rfind('\n');
  size_t length = last_break == std::string::npos ? 0 : last_break + 1;
  if (pending_.size() - length > kLongestLine) length = pending_.size();
  if (length == 0) return;
  const std::string_view lines = std::string_view(pending_).substr(0, length);
  output_->Add(LineStart(output_->destination()));
  AddWithPrefix(lines);
  if (options_.copy != nullptr) options_.copy->Add(lines);
  pending_.erase(0, length);
}

void LineForwarder::AddWithPrefix(std::string_view lines) {
  if (options_.prefix.empty()) return output_->Add(lines);
  while (!lines.empty()) {
    const size_t length = std::min(lines.find('\n'), lines.size() - 1) + 1;
    if (!in_line_) output_->Add(options_.prefix);
    output_->Add(lines.substr(0, length));
    in_line_ = lines[length - 1] != '\n';
    lines.remove_prefix(length);
  }
}

}  // namespace launch
