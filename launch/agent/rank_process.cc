#include "launch/agent/rank_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace launch {
namespace {

// Added to, as a job that is requeued writes to the same files again.
FileDescriptor OpenLog(const std::string& path) {
  if (path.empty()) return {};
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.is_open()) ThrowSystemError(errno, ("can't write " + path).c_str());
  return file;
}

// A pipe for one of a rank's output streams. A terminal is rank 0's own, unless something is to be
// done with its lines.
Pipe OutputPipe(const RankOptions& options, int destination) {
  const bool as_it_is = options.line_prefix.empty() && options.log_file.empty();
  return options.has_input && as_it_is && isatty(destination) ? Pipe() : MakePipe();
}

LineForwarder Forwarder(Pipe pipe, Output* output, const std::string& prefix, Output* copy) {
  if (!pipe.read_end.is_open()) return {};
  return LineForwarder(std::move(pipe.read_end), output, {.prefix = prefix, .copy = copy});
}

std::string CantExecute(const std::string& program) {
  std::string text =
      Encode({std::chrono::steady_clock::now(), {}, "can't execute " + program + ": "});
  text.pop_back();  // the line goes on
  return text;
}

}  // namespace

RankProcess::RankProcess(const RankOptions& options, Outputs* outputs)
    : log_file_(OpenLog(options.log_file)), log_(log_file_.get()) {
  end_.rank = options.rank;
  const FileDescriptor null = OpenNull();
  Pipe out = OutputPipe(options, outputs->out.destination());
  Pipe err = OutputPipe(options, outputs->err.destination());
  Pipe report = MakePipe();
  ProcessOptions process;
  process.command = options.command;
  process.executable = options.executable;
  process.environment = options.environment;
  process.environment[kReportFdVariable] = std::to_string(report.write_end.get());
  process.in = options.has_input ? -1 : null.get();
  process.out = out.write_end.get();
  process.err = err.write_end.get();
  process.report = report.write_end.get();
  process.report_prefix = CantExecute(options.command[0]);
  Output* const copy = log_file_.is_open() ? &log_ : nullptr;
  reports_.emplace(std::move(report.read_end));
  process_.emplace(process);
  out_ = Forwarder(std::move(out), &outputs->out, options.line_prefix, copy);
  err_ = Forwarder(std::move(err), &outputs->err, options.line_prefix, copy);
}

std::vector<int> RankProcess::fds() const {
  if (!running_) return {};
  std::vector<int> open;
  for (const int fd : {process_->fd(), out_.fd(), err_.fd(), reports_->fd()}) {
    if (fd >= 0) open.push_back(fd);
  }
  return open;
}

void RankProcess::Handle() {
  if (!running_) return;
  out_.Forward();
  err_.Forward();
  reports_->Read();
  if (const std::optional<int> status = process_->Reap()) {
    running_ = false;
    out_.Finish();
    err_.Finish();
    reports_->Read();
    end_.wait_status = *status;
    end_.time = std::chrono::steady_clock::now();
    end_.report = reports_->failure();
  }
  log_.Write();
}

void RankProcess::NoteStop(int signal) {
  if (running_ && end_.stop_signal == 0) end_.stop_signal = signal;
}

void RankProcess::Kill() {
  if (!running_) return;
  end_.was_killed = true;
  Signal(SIGKILL);
}

}  // namespace launch
