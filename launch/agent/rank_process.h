// RankProcess: one rank of this node, from its start to its end: the process, what it prints, what
// it reports.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent/line_forwarder.h"
#include "launch/agent/output.h"
#include "launch/agent/process.h"
#include "launch/agent/report_reader.h"
#include "launch/agent/root_cause.h"

namespace launch {

// The agent's own standard output and error.
struct Outputs {
  Output out = Output(STDOUT_FILENO);
  Output err = Output(STDERR_FILENO);
};

struct RankOptions {
  int rank = 0;
  std::vector<std::string> command;
  // The file to execute where that isn't command[0].
  std::string executable;
  std::map<std::string, std::string> environment;
  // Reads the agent's standard input; the others read nothing.
  bool has_input = false;
  // Before each line that it prints, "[3] "; "": none.
  std::string line_prefix;
  // What it prints is added to this file, too, without the prefix; "": none.
  std::string log_file;
};

class RankProcess {
 public:
  // Throws std::system_error when it can't be started, or the file can't be opened.
  RankProcess(const RankOptions& options, Outputs* outputs);
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  bool running() const { return running_; }
  // What to poll for reading.
  std::vector<int> fds() const;
  // Passes on what it has printed and notices its end, after which running() is false and end()
  // complete. Never waits.
  void Handle();

  // Nothing here reaches a rank that has ended.
  void Signal(int signal) const { process_->Signal(signal); }
  // It is asked to end, by a signal that somebody sends.
  void NoteStop(int signal);
  void Stop(int signal) {
    NoteStop(signal);
    Signal(signal);
  }
  void Kill();

  const RankEnd& end() const { return end_; }
  const std::optional<int64_t>& progress() const { return reports_->progress(); }

 private:
  FileDescriptor log_file_;
  Output log_;
  LineForwarder out_, err_;
  std::optional<ReportReader> reports_;
  std::optional<Process> process_;
  bool running_ = true;
  RankEnd end_;
};

}  // namespace launch
