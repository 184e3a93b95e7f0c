// StopSignals: while one lives, the signals that ask a program to end (Ctrl-C, SIGTERM, a closed
// terminal) arrive as something to poll, instead of ending the process.
//
// They come through handlers and a pipe, not through a signalfd: that would need them blocked in
// every thread, and BLAS has started threads before main. Handlers belong to the process, so one
// object may live at a time.
#pragma once

#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include "launch/agent/file_descriptor.h"

namespace launch {

class StopSignals {
 public:
  // Throws std::logic_error while another one lives. A SIGHUP that is ignored (nohup) stays so.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when a signal has arrived.
  int fd() const { return pipe_.read_end.get(); }
  // The oldest signal that has arrived and wasn't taken yet.
  std::optional<int> Take();

 private:
  Pipe pipe_;
  std::vector<std::pair<int, struct sigaction>> previous_;
};

}  // namespace launch
