// FlightRecordSignal: while it lives, SIGUSR2 makes this rank write its flight record:
//
//   kill -USR2 PID_OF_TRAIN && bazel run //ddp:desync -- DIRECTORY/flight_record_*.json
//
// for a training that seems to hang. One may live at a time, as signals belong to the process.
#pragma once

#include <csignal>
#include <string>
#include <thread>

#include "ddp/collectives/process_group.h"
#include "launch/agent/file_descriptor.h"
#include "launch/agent/signal_pipe.h"

namespace launch {

// Keeps the signal from this thread, and from those that it starts, while it lives. A handler that
// interrupts a matrix product of oneDNN 2.6 damages the heap: there, as valgrind shows, the stack
// pointer points into it. Comes before all threads that calculate.
class WithoutFlightRecordSignal {
 public:
  WithoutFlightRecordSignal();
  ~WithoutFlightRecordSignal();
  WithoutFlightRecordSignal(const WithoutFlightRecordSignal&) = delete;
  WithoutFlightRecordSignal& operator=(const WithoutFlightRecordSignal&) = delete;

 private:
  sigset_t previous_;
};

class FlightRecordSignal {
 public:
  // `group` must outlive it. Says on standard error where the record is, or why there is none.
  FlightRecordSignal(const ddp::ProcessGroup& group, std::string directory);
  ~FlightRecordSignal();

 private:
  void Serve();

  const ddp::ProcessGroup& group_;
  const std::string directory_;
  SignalPipe signals_;
  Pipe end_;
  std::thread thread_;
};

}  // namespace launch
