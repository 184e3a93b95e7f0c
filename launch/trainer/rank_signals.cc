#include "launch/trainer/rank_signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "launch/agent/report.h"

namespace launch {
namespace {

std::vector<int> WithFlightRecord(std::vector<int> signals) {
  if (std::ranges::find(signals, SIGUSR2) != signals.end()) {
    throw std::invalid_argument("SIGUSR2 asks for the flight record, and can't stop as well");
  }
  signals.push_back(SIGUSR2);
  return signals;
}

}  // namespace

RankSignalsOptions SignalsFor(const TrainOptions& options, const ddp::Environment& environment) {
  if (options.checkpoint_dir.empty()) return {};
  RankSignalsOptions signals = {.stop = {options.stop_signal, SIGTERM}};
  constexpr ddp::NumberRange kUnixTimes = {0, int64_t{1} << 33};
  if (const auto end = ddp::NumberOf(environment, "SLURM_JOB_END_TIME", kUnixTimes,
                                     "the seconds since 1970 at which the job ends")) {
    const auto left = std::chrono::system_clock::time_point(std::chrono::seconds(*end)) -
                      std::chrono::system_clock::now();
    signals.deadline = ddp::Clock::now() + left - options.stop_before_end;
  }
  return signals;
}

RankSignals::RankSignals(RankSignalsOptions options)
    : options_(std::move(options)), pipe_(WithFlightRecord(options_.stop)), end_(MakePipe()) {
  sigemptyset(&signals_);
  for (const int signal : WithFlightRecord(options_.stop)) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  thread_ = std::thread([this] { Serve(); });
}

RankSignals::~RankSignals() {
  end_.write_end.Close();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void RankSignals::OnFlightRecord(std::function<void()> write) {
  const std::lock_guard lock(mutex_);
  write_ = std::move(write);
}

void RankSignals::OnStop(std::function<void(const std::string& why)> stop) {
  const std::lock_guard lock(mutex_);
  stop_ = std::move(stop);
}

void RankSignals::Serve() {
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  pollfd events[] = {{pipe_.fd(), POLLIN, 0}, {end_.read_end.get(), POLLIN, 0}};
  ddp::Deadline deadline = options_.deadline;
  for (;;) {
    poll(events, 2, ddp::MillisecondsLeft(deadline));
    if (events[1].revents != 0) return;
    if (ddp::Clock::now() >= deadline) {
      deadline = ddp::Deadline::max();
      AskToStop("the end of the time for this job");
    }
    if (const auto signal = pipe_.Take()) Take(signal->number);
  }
}

void RankSignals::Take(int signal) {
  if (signal == SIGUSR2) {
    const std::lock_guard lock(mutex_);
    if (write_) write_();
  } else {
    AskToStop(fmt::format("SIG{}", sigabbrev_np(signal)));
  }
}

void RankSignals::AskToStop(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (stop_) {
    stop_(why);
  } else {
    fmt::print(stderr, "stopped by {} before training began\n", why);
    _exit(kRequeueExitCode);
  }
}

}  // namespace launch
