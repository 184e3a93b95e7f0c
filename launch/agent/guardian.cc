#include "launch/agent/guardian.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "launch/agent/process_table.h"

namespace launch {
namespace {

constexpr auto kPause = std::chrono::milliseconds(5);
// A process that becomes another program has no environment for a moment.
constexpr int kLooksInVain = 3;
constexpr int kMostLooks = 1000;

// The mark of an agent further down begins with that of the one above.
bool Carries(pid_t pid, const std::string& mark) {
  const std::optional<std::string> own = VariableOf(pid, Guardian::kVariable);
  return own && (*own == mark || own->starts_with(mark + "/"));
}

void KillMarked(const std::string& mark) {
  int in_vain = 0;
  for (int look = 0; look < kMostLooks && in_vain < kLooksInVain; ++look) {
    ++in_vain;
    for (const pid_t pid : AllProcesses()) {
      if (Carries(pid, mark) && kill(pid, SIGKILL) == 0) in_vain = 0;
    }
    std::this_thread::sleep_for(kPause);
  }
}

[[noreturn]] void Watch(int pipe, const std::string& mark) {
  setsid();
  prctl(PR_SET_NAME, "ddp_guardian");
  if (chdir("/") != 0) _exit(1);
  // Nobody is to wait for the end of what this process doesn't use.
  if (pipe > 0) close_range(0, pipe - 1, 0);
  close_range(pipe + 1, ~0u, 0);
  char word = 0;
  if (read(pipe, &word, 1) == 0) KillMarked(mark);
  _exit(0);
}

std::string MakeMark() {
  const char* above = std::getenv(Guardian::kVariable);
  return fmt::format("{}{}-{}", above == nullptr ? "" : std::string(above) + "/", getpid(),
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

Guardian::Guardian() : mark_(MakeMark()), pipe_(MakePipe()) {
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  // Forked twice, so that it is nobody's child, and nobody has to await it.
  const pid_t child = fork();
  if (child == 0) {
    const pid_t guardian = fork();
    if (guardian == 0) Watch(pipe_.read_end.get(), mark_);
    _exit(guardian < 0 ? errno : 0);
  }
  int status = errno << 8;
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (child >= 0) waitpid(child, &status, 0);
  if (status != 0) ThrowSystemError(WEXITSTATUS(status), "fork");
}

Guardian::~Guardian() { WriteAll(pipe_.write_end.get(), "."); }

}  // namespace launch
