// ReportReader: the agent's end of the pipe through which one rank reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/agent/file_descriptor.h"
#include "launch/agent/report.h"

namespace launch {

class ReportReader {
 public:
  explicit ReportReader(FileDescriptor pipe);

  // What to poll for reading; -1 when nobody can report any more.
  int fd() const { return pipe_.get(); }
  // Takes what has come. Never waits.
  void Read();

  // The last of each kind.
  const std::optional<RankReport>& failure() const { return failure_; }
  const std::optional<int64_t>& progress() const { return progress_; }

 private:
  void TakeLine(std::string_view line);

  FileDescriptor pipe_;
  std::string pending_;
  std::optional<RankReport> failure_;
  std::optional<int64_t> progress_;
};

}  // namespace launch
