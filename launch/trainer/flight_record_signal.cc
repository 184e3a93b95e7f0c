#include "launch/trainer/flight_record_signal.h"

#include <fmt/format.h>
#include <poll.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

namespace launch {

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
