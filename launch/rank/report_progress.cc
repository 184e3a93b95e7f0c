#include "launch/rank/report_progress.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "launch/agent/report.h"

namespace launch {

void ReportProgress(int64_t step) {
  const char* fd = std::getenv(kReportFdVariable);
  if (fd == nullptr) return;
  const std::string line = EncodeProgress(step);
  [[maybe_unused]] const ssize_t written = write(std::atoi(fd), line.data(), line.size());
}

}  // namespace launch
