#include "launch/trainer/flight_record_signal.h"

#include <fmt/format.h>
#include <poll.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

namespace launch {
namespace {

sigset_t OnlySigusr2() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return set;
}

}  // namespace

WithoutFlightRecordSignal::WithoutFlightRecordSignal() {
  const sigset_t set = OnlySigusr2();
  pthread_sigmask(SIG_BLOCK, &set, &previous_);
}

WithoutFlightRecordSignal::~WithoutFlightRecordSignal() {
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

FlightRecordSignal::FlightRecordSignal(const ddp::ProcessGroup& group, std::string directory)
    : group_(group),
      directory_(std::move(directory)),
      signals_({SIGUSR2}),
      end_(MakePipe()),
      thread_([this] { Serve(); }) {}

FlightRecordSignal::~FlightRecordSignal() {
  end_.write_end.Close();
  thread_.join();
}

void FlightRecordSignal::Serve() {
  const sigset_t set = OnlySigusr2();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  pollfd events[] = {{signals_.fd(), POLLIN, 0}, {end_.read_end.get(), POLLIN, 0}};
  for (;;) {
    poll(events, 2, -1);
    if (events[1].revents != 0) return;
    if (!signals_.Take()) continue;
    try {
      const std::string path = group_.WriteFlightRecord(directory_);
      fmt::print(stderr, "rank {}: flight record in {}\n", group_.rank(), path);
    } catch (const std::exception& error) {
      fmt::print(stderr, "rank {}: no flight record: {}\n", group_.rank(), error.what());
    }
  }
}

}  // namespace launch
