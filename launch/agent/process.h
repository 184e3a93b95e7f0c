// Process: a program that this one started, and that ends with it.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent/file_descriptor.h"

namespace launch {

struct ProcessOptions {
  // The program and its arguments; looked up in PATH when it has no slash.
  std::vector<std::string> command;
  // The file to execute where that isn't command[0].
  std::string executable;
  // Set on top of this process's environment.
  std::map<std::string, std::string> environment;
  // Standard streams; -1: this process's own.
  int in = -1, out = -1, err = -1;
  // Stays open in the program, under the same number; -1: none. When the program can't be
  // executed, `report_prefix`, the reason and a line break are written there, and it exits with
  // 127.
  int report = -1;
  std::string report_prefix;
};

class Process {
 public:
  // Starts the program. It gets SIGKILL when the calling thread ends, so when this process dies,
  // however it dies. Throws std::system_error when there is no more room for a process.
  explicit Process(const ProcessOptions& options);
  // Kills and reaps a program that still runs.
  ~Process();
  Process(Process&&) noexcept = default;

  pid_t pid() const { return pid_; }
  // Readable when the program has ended.
  int fd() const { return handle_.get(); }
  void Signal(int signal) const;
  // The status, as waitpid gives it, if the program has ended; it is then gone.
  std::optional<int> Reap();

 private:
  void OpenHandle();

  pid_t pid_ = -1;  // not reaped before handle_ closes, so it can't be another's
  FileDescriptor handle_;
};

}  // namespace launch
