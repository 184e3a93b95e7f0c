// RankSignals: what a rank is told by signals while it trains, on a thread of its own.
//
//   RankSignals signals({.stop = {SIGUSR1, SIGTERM}});   // before threads that calculate begin
//   signals.OnFlightRecord([&] { group.WriteFlightRecord("."); });
//   signals.OnStop([&](const std::string& why) { learner.AskToStop(); });
//
// SIGUSR2 asks for the flight record of a training that seems to hang:
//
//   kill -USR2 PID_OF_TRAIN && bazel run //ddp:desync -- DIRECTORY/flight_record_*.json
//
// A stop signal, or the end of the time that there is, asks the run to end early. Until somebody
// listens, there is nothing to keep: the process exits with kRequeueExitCode.
//
// The signals are kept from the constructing thread, and from those that it starts: a handler that
// interrupts a matrix product of oneDNN 2.6 damages the heap, for there, as valgrind shows, the
// stack pointer points into it. Signals belong to the process, so one object may live at a time.
#pragma once

#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ddp/duration.h"
#include "ddp/environment.h"
#include "launch/agent/file_descriptor.h"
#include "launch/agent/signal_pipe.h"
#include "launch/trainer/options.h"

namespace launch {

struct RankSignalsOptions {
  std::vector<int> stop = {};  // signals
  // When to stop without a signal.
  ddp::Deadline deadline = ddp::Deadline::max();
};

// What `options` mean in this environment, where Slurm tells when the job ends
// (SLURM_JOB_END_TIME). Without a place for checkpoints nothing stops a run but what ends it.
RankSignalsOptions SignalsFor(const TrainOptions& options, const ddp::Environment& environment);

class RankSignals {
 public:
  // Throws std::invalid_argument where SIGUSR2 is to stop as well.
  explicit RankSignals(RankSignalsOptions options = {});
  // Nothing is called any more when it returns.
  ~RankSignals();
  RankSignals(const RankSignals&) = delete;
  RankSignals& operator=(const RankSignals&) = delete;

  // What to call, on the thread of signals. When these return, what was set before isn't running
  // and won't be called.
  void OnFlightRecord(std::function<void()> write);
  // Each request calls it, with words for people: "SIGUSR1".
  void OnStop(std::function<void(const std::string& why)> stop);

 private:
  void Serve();
  void Take(int signal);
  void AskToStop(const std::string& why);

  const RankSignalsOptions options_;
  sigset_t signals_;
  sigset_t previous_;  // mask of the constructing thread
  SignalPipe pipe_;
  Pipe end_;
  std::mutex mutex_;
  std::function<void()> write_;                       // guarded by mutex_
  std::function<void(const std::string& why)> stop_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace launch
