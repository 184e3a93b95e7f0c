// FlightRecordSignal: while it lives, SIGUSR2 makes this rank write its flight record:
//
//   kill -USR2 PID_OF_TRAIN && bazel run //ddp:desync -- DIRECTORY/flight_record_*.json
//
// for a training that seems to hang. One may live at a time, as signals belong to the process.
#pragma once

#include <string>
#include <thread>

#include "ddp/collectives/process_group.h"
#include "launch/agent/file_descriptor.h"
#include "launch/agent/signal_pipe.h"

namespace launch {

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
