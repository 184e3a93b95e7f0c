#include "ddp/collectives/shm/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <string>
#include <system_error>

#include "ddp/file_descriptor.h"

namespace ddp::shm {
namespace {

struct Stat {
  char state = 0;
  int num_threads = 0;
  uint64_t start_time = 0;
  int exit_status = 0;  // as waitpid tells it; of a zombie
};

// The fields of proc(5), from the third on: the second is a name that may hold anything.
Stat ParseStat(const std::string& text) {
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  Stat stat;
  std::string skipped;
  const auto skip = [&](int count) {
    while (count-- > 0) fields >> skipped;
  };
  fields >> stat.state;
  skip(16);
  fields >> stat.num_threads;
  skip(1);
  fields >> stat.start_time;
  skip(29);
  fields >> stat.exit_status;
  return stat;
}

// Nothing, and errno, when it can't be read.
std::optional<Stat> ReadStat(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file.is_open() ? read(file.get(), text, sizeof(text)) : -1;
  if (size <= 0) return std::nullopt;
  return ParseStat(std::string(text, size));
}

std::string DescribeExit(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

}  // namespace

Process ThisProcess() {
  const std::optional<Stat> stat = ReadStat(getpid());
  if (!stat) throw std::system_error(errno, std::generic_category(), "can't read /proc/PID/stat");
  return {getpid(), stat->start_time};
}

std::optional<std::string> DescribeEnd(const Process& process) {
  errno = 0;
  const std::optional<Stat> stat = ReadStat(process.pid);
  if (!stat && errno != ENOENT && errno != ESRCH) return std::nullopt;  // can't know
  if (!stat || stat->start_time != process.start_time) return "its process is gone";
  // The first thread may end before the others do.
  const bool ended = (stat->state == 'Z' && stat->num_threads <= 1) || stat->state == 'X';
  if (!ended) return std::nullopt;
  return DescribeExit(stat->exit_status);
}

}  // namespace ddp::shm
