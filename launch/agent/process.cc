#include "launch/agent/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace launch {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(std::map<std::string, std::string> variables) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

// What the child needs between fork and exec, laid out beforehand: other threads of this process
// may hold the allocator's lock at the moment of the fork, so the child makes system calls only.
struct Prepared {
  const char* executable;
  char* const* arguments;
  char* const* environment;
  const ProcessOptions* options;
  pid_t parent;
  sigset_t signal_mask;  // of the caller, to be restored
};

// A handler of this process must not run in the child, whose memory and pipes look like ours.
void ResetSignalHandlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL) std::signal(signal, SIG_DFL);
  }
  // It asks a rank for its flight record, and mustn't end one that has none yet.
  std::signal(SIGUSR2, SIG_IGN);
}

void TakeStream(int fd, int number) {
  if (fd >= 0) dup2(fd, number);
}

[[noreturn]] void ExecuteInChild(const Prepared& prepared) {
  const ProcessOptions& options = *prepared.options;
  ResetSignalHandlers();
  sigprocmask(SIG_SETMASK, &prepared.signal_mask, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(127);  // it died before the line above
  TakeStream(options.in, STDIN_FILENO);
  TakeStream(options.out, STDOUT_FILENO);
  TakeStream(options.err, STDERR_FILENO);
  if (options.report >= 0) fcntl(options.report, F_SETFD, 0);
  execvpe(prepared.executable, prepared.arguments, prepared.environment);
  const char* reason = strerrordesc_np(errno);
  for (const char* text : {options.report_prefix.c_str(), reason, "\n"}) {
    [[maybe_unused]] const ssize_t written = write(options.report, text, strlen(text));
  }
  _exit(127);
}

}  // namespace

Process::Process(const ProcessOptions& options) {
  const std::vector<std::string> environment = Environment(options.environment);
  const std::vector<char*> argument_pointers = Pointers(options.command);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const std::string& executable =
      options.executable.empty() ? options.command.at(0) : options.executable;
  Prepared prepared{executable.c_str(),
                    argument_pointers.data(),
                    environment_pointers.data(),
                    &options,
                    getpid(),
                    {}};
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &prepared.signal_mask);
  pid_ = fork();
  if (pid_ == 0) ExecuteInChild(prepared);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &prepared.signal_mask, nullptr);
  if (pid_ < 0) ThrowSystemError(fork_error, "fork");
  OpenHandle();
}

void Process::OpenHandle() {
  handle_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!handle_.is_open()) {
    const int error = errno;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    ThrowSystemError(error, "pidfd_open");
  }
}

Process::~Process() {
  if (!handle_.is_open()) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::Signal(int signal) const {
  if (handle_.is_open()) kill(pid_, signal);
}

std::optional<int> Process::Reap() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  handle_.Close();
  return status;
}

}  // namespace launch
