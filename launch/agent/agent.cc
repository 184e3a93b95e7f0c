#include "launch/agent/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "launch/agent/line_forwarder.h"
#include "launch/agent/output.h"
#include "launch/agent/process.h"
#include "launch/agent/root_cause.h"
#include "launch/agent/signal_pipe.h"

namespace launch {
namespace {

using Clock = std::chrono::steady_clock;

// How long a rank that lost its peer is kept as the only failure known: the peer itself, whose
// sockets close before the kernel reports its death, gets this long to show up.
constexpr auto kCauseGrace = std::chrono::milliseconds(200);

// A rank while it runs.
struct RunningRank {
  RunningRank(int rank, Process process, LineForwarder out, LineForwarder err,
              FileDescriptor report)
      : process(std::move(process)),
        out(std::move(out)),
        err(std::move(err)),
        report(std::move(report)) {
    end.rank = rank;
  }

  Process process;
  LineForwarder out, err;
  FileDescriptor report;
  bool running = true;
  RankEnd end;
};

// A pipe for one of a rank's output streams, unless it is to use the agent's own.
Pipe OutputPipe(int rank, int destination) {
  return rank == 0 && isatty(destination) ? Pipe() : MakePipe();
}

LineForwarder Forwarder(Pipe pipe, Output* output) {
  return pipe.read_end.is_open() ? LineForwarder(std::move(pipe.read_end), output)
                                 : LineForwarder();
}

// The agent's own standard output and error.
struct Outputs {
  Output out = Output(STDOUT_FILENO);
  Output err = Output(STDERR_FILENO);
};

RunningRank StartRank(const AgentOptions& options, int rank, Outputs* outputs) {
  const FileDescriptor null = OpenNull();
  Pipe out = OutputPipe(rank, outputs->out.destination());
  Pipe err = OutputPipe(rank, outputs->err.destination());
  Pipe report = MakePipe();
  ProcessOptions process;
  process.command = options.command;
  process.executable = options.executable;
  process.environment = options.environment;
  process.environment["RANK"] = std::to_string(rank);
  process.environment["WORLD_SIZE"] = std::to_string(options.num_ranks);
  process.environment["LOCAL_RANK"] = std::to_string(rank);
  process.environment["LOCAL_WORLD_SIZE"] = std::to_string(options.num_ranks);
  process.environment["MASTER_ADDR"] = options.master_addr;
  process.environment["MASTER_PORT"] = std::to_string(options.master_port);
  process.environment[kStoreHostedVariable] = "1";
  process.environment[kReportFdVariable] = std::to_string(report.write_end.get());
  process.in = rank == 0 ? -1 : null.get();
  process.out = out.write_end.get();
  process.err = err.write_end.get();
  process.report = report.write_end.get();
  process.report_prefix = Encode({Clock::now(), {}, "can't execute " + options.command[0] + ": "});
  process.report_prefix.pop_back();  // the line goes on
  SetNonBlocking(report.read_end);
  return RunningRank(rank, Process(process), Forwarder(std::move(out), &outputs->out),
                     Forwarder(std::move(err), &outputs->err), std::move(report.read_end));
}

std::optional<RankReport> ReadReport(const FileDescriptor& pipe) {
  char line[PIPE_BUF];
  const ssize_t length = read(pipe.get(), line, sizeof line);
  if (length <= 0) return std::nullopt;
  return Decode(std::string_view(line, length));
}

// Each rank takes four descriptors here, and a few in each other rank, which inherits the limit:
// hundreds of ranks need more than the customary 1024. Not all that may be had, as there are
// programs that go through every possible descriptor.
void AllowDescriptorsFor(int num_ranks) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed = 256 + 16 * static_cast<rlim_t>(num_ranks);
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(needed, limit.rlim_max));
  setrlimit(RLIMIT_NOFILE, &limit);
}

class Agent {
 public:
  explicit Agent(const AgentOptions& options) : options_(options) {
    AllowDescriptorsFor(options.num_ranks);
    for (int rank = 0; rank < options.num_ranks; ++rank) {
      ranks_.push_back(StartRank(options, rank, &outputs_));
    }
  }

  AgentResult Run() {
    while (AnyRankRuns() || MustWrite()) {
      WaitForEvents();
      HandleSignals();
      for (RunningRank& rank : ranks_) HandleRank(&rank);
      outputs_.out.Write();
      outputs_.err.Write();
      HandleDeadlines();
    }
    return Result();
  }

 private:
  bool AnyRankRuns() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank.running; });
  }

  // Whoever reads the output may take as long as they like, until the agent is told to stop.
  bool MustWrite() const {
    const bool has_text = outputs_.out.fd() >= 0 || outputs_.err.fd() >= 0;
    return has_text && !(drop_output_at_ && Clock::now() >= *drop_output_at_);
  }

  void WaitForEvents() {
    std::vector<pollfd> events = {{signals_.fd(), POLLIN, 0}};
    for (const Output* output : {&outputs_.out, &outputs_.err}) {
      if (output->fd() >= 0) events.push_back({output->fd(), POLLOUT, 0});
    }
    for (const RunningRank& rank : ranks_) {
      for (const int fd : {rank.process.fd(), rank.out.fd(), rank.err.fd()}) {
        if (fd >= 0) events.push_back({fd, POLLIN, 0});
      }
    }
    if (poll(events.data(), events.size(), MillisecondsToDeadline()) < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "poll");
    }
  }

  int MillisecondsToDeadline() const {
    TimePoint next = TimePoint::max();
    for (const std::optional<TimePoint>& deadline : {terminate_at_, kill_at_, drop_output_at_}) {
      next = std::min(next, deadline.value_or(next));
    }
    if (next == TimePoint::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    return std::max<int>(0, static_cast<int>(left.count()));
  }

  void HandleSignals() {
    while (std::optional<int> signal = signals_.Take()) {
      if (*signal == SIGUSR2) {
        for (RunningRank& rank : ranks_) rank.process.Signal(SIGUSR2);
        continue;
      }
      const TimePoint now = Clock::now();
      if (signal_) {
        kill_at_ = drop_output_at_ = now;
      } else {
        signal_ = signal;
        failed_before_signal_ = HasFailed(*signal);
        drop_output_at_ = now + options_.grace;
      }
      StopBy(now);
    }
  }

  // Whether a rank has failed by itself. Ctrl-C at a terminal goes to the ranks, too.
  bool HasFailed(int signal_to_all) const {
    return std::any_of(ranks_.begin(), ranks_.end(), [&](const RunningRank& rank) {
      return rank.end.is_own_fault() && rank.end.wait_status != signal_to_all;
    });
  }

  void HandleRank(RunningRank* rank) {
    if (!rank->running) return;
    rank->out.Forward();
    rank->err.Forward();
    const std::optional<int> status = rank->process.Reap();
    if (!status) return;
    rank->running = false;
    rank->out.Finish();
    rank->err.Finish();
    rank->end.wait_status = *status;
    rank->end.time = Clock::now();
    rank->end.report = ReadReport(rank->report);
    if (rank->end.failed()) {
      StopBy(rank->end.time +
             (rank->end.is_own_fault() ? Clock::duration::zero() : Clock::duration(kCauseGrace)));
    }
  }

  void StopBy(TimePoint time) {
    if (stopping_) return;
    if (!terminate_at_ || time < *terminate_at_) terminate_at_ = time;
  }

  void HandleDeadlines() {
    const TimePoint now = Clock::now();
    if (terminate_at_ && now >= *terminate_at_) {
      terminate_at_.reset();
      stopping_ = true;
      SignalAll(SIGTERM, &RankEnd::was_terminated);
      if (!kill_at_) kill_at_ = now + options_.grace;
    }
    if (kill_at_ && now >= *kill_at_) {
      kill_at_.reset();
      SignalAll(SIGKILL, &RankEnd::was_killed);
    }
  }

  void SignalAll(int signal, bool RankEnd::*mark) {
    for (RunningRank& rank : ranks_) {
      if (!rank.running) continue;
      rank.process.Signal(signal);
      rank.end.*mark = true;
    }
  }

  AgentResult Result() const {
    if (signal_ && !failed_before_signal_)
      return {128 + *signal_, "stopped by " + DescribeSignal(*signal_)};
    std::vector<RankEnd> ends;
    for (const RunningRank& rank : ranks_) ends.push_back(rank.end);
    const std::optional<Failure> failure = RootCause(ends);
    return failure ? AgentResult{failure->exit_code, failure->reason} : AgentResult{};
  }

  const AgentOptions& options_;
  // Those that end the job, and the one that asks the ranks for their flight records.
  SignalPipe signals_{{SIGINT, SIGTERM, SIGHUP, SIGUSR2}};
  Outputs outputs_;
  std::vector<RunningRank> ranks_;
  std::optional<TimePoint> terminate_at_, kill_at_, drop_output_at_;
  bool stopping_ = false;      // SIGTERM has been sent
  std::optional<int> signal_;  // that ended the agent
  bool failed_before_signal_ = false;
};

}  // namespace

AgentResult RunAgent(const AgentOptions& options) {
  if (options.num_ranks < 1) {
    throw std::invalid_argument(
        fmt::format("number of ranks: {}; at least 1 is needed", options.num_ranks));
  }
  if (options.command.empty()) throw std::invalid_argument("no command for the ranks to run");
  return Agent(options).Run();
}

}  // namespace launch
