#include "launch/agent/report_reader.h"

#include <limits.h>
#include <unistd.h>

#include <cerrno>

namespace launch {

ReportReader::ReportReader(FileDescriptor pipe) : pipe_(std::move(pipe)) { SetNonBlocking(pipe_); }

void ReportReader::Read() {
  if (!pipe_.is_open()) return;
  char bytes[PIPE_BUF];
  ssize_t length = 0;
  while ((length = read(pipe_.get(), bytes, sizeof bytes)) > 0) pending_.append(bytes, length);
  if (length == 0 || (errno != EAGAIN && errno != EINTR)) pipe_.Close();
  for (size_t end; (end = pending_.find('\n')) != std::string::npos; pending_.erase(0, end + 1)) {
    TakeLine(std::string_view(pending_).substr(0, end));
  }
  if (pending_.size() > PIPE_BUF) pending_.clear();  // no line of a report is that long
}

void ReportReader::TakeLine(std::string_view line) {
  if (const auto step = DecodeProgress(line)) {
    progress_ = step;
  } else if (auto report = Decode(line)) {
    failure_ = std::move(report);
  }
}

}  // namespace launch
