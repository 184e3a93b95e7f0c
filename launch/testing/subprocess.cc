#include "launch/testing/subprocess.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace launch {
namespace {

constexpr auto kDeadline = std::chrono::seconds(100);

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

ProcessOptions Options(const std::vector<std::string>& command,
                       std::map<std::string, std::string> environment, const Pipe& out,
                       const Pipe& err) {
  ProcessOptions options;
  options.command = command;
  options.environment = std::move(environment);
  options.out = out.write_end.get();
  options.err = err.write_end.get();
  return options;
}

}  // namespace

std::vector<std::string> ProgramOutput::out_lines() const { return Lines(out); }

std::string ProgramOutput::last_error() const {
  const std::vector<std::string> lines = Lines(err);
  return lines.empty() ? "" : lines.back();
}

Subprocess::Subprocess(std::vector<std::string> command,
                       std::map<std::string, std::string> environment)
    : command_(std::move(command)),
      process_([&] {
        Pipe out = MakePipe(), err = MakePipe();
        Process process(Options(command_, std::move(environment), out, err));
        streams_.push_back({std::move(out.read_end), &output_.out});
        streams_.push_back({std::move(err.read_end), &output_.err});
        return process;
      }()),
      deadline_(std::chrono::steady_clock::now() + kDeadline) {}

std::vector<std::string> Subprocess::WaitForLines(size_t count) {
  while (std::count(output_.out.begin(), output_.out.end(), '\n') < static_cast<ptrdiff_t>(count) &&
         ReadSome()) {
  }
  return Lines(output_.out);
}

ProgramOutput Subprocess::Wait() {
  while (ReadSome()) {
  }
  std::optional<int> status;
  while (!(status = process_.Reap())) {
    pollfd ended = {process_.fd(), POLLIN, 0};
    poll(&ended, 1, -1);
  }
  output_.exit_code = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
  return output_;
}

bool Subprocess::ReadSome() {
  std::vector<pollfd> events;
  for (const Stream& stream : streams_) events.push_back({stream.source.get(), POLLIN, 0});
  if (events.empty()) return false;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0 || poll(events.data(), events.size(), left.count()) == 0) {
    process_.Signal(SIGKILL);
    throw std::runtime_error(fmt::format("no end of: {}\nstandard output:\n{}\nstandard error:\n{}",
                                         fmt::join(command_, " "), output_.out, output_.err));
  }
  for (size_t i = events.size(); i-- > 0;) {
    if (events[i].revents == 0) continue;
    std::array<char, 1 << 16> chunk;
    const ssize_t length = read(events[i].fd, chunk.data(), chunk.size());
    if (length > 0) streams_[i].text->append(chunk.data(), length);
    if (length == 0) streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(i));
  }
  return true;
}

ProgramOutput RunProgram(std::vector<std::string> command,
                         std::map<std::string, std::string> environment) {
  return Subprocess(std::move(command), std::move(environment)).Wait();
}

void WaitForEnd(int pid) {
  const FileDescriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!handle.is_open()) return;  // gone and reaped
  pollfd ended = {handle.get(), POLLIN, 0};
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kDeadline);
  if (poll(&ended, 1, limit.count()) == 0) {
    throw std::runtime_error(fmt::format("process {} lives on", pid));
  }
}

}  // namespace launch
