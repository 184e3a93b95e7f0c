#include "launch/trainer/resources.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "ddp/store/meeting_point.h"
#include "launch/topology/topology.h"

namespace launch {
namespace {

// When a process started, in seconds since the machine did.
double StartSeconds(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  // The name, in parentheses, may hold anything; the 20th field after it is the start.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  return field.empty() ? 0 : std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

double SecondsSinceLaunch() {
  const bool has_agent = ProcessEnvironment()(ddp::kStoreHostedVariable).has_value();
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double now_seconds =
      static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  return now_seconds - StartSeconds(has_agent ? getppid() : getpid());
}

}  // namespace launch
