// SignalPipe: while one lives, some signals arrive as something to poll, instead of ending the
// process.
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

struct ReceivedSignal {
  int number = 0;
  // The kernel sent it, as a terminal's Ctrl-C, which goes to the children alike.
  bool went_to_group = false;
};

class SignalPipe {
 public:
  // Throws std::logic_error while another one lives. A signal that is ignored (as SIGHUP under
  // nohup) stays so, but for SIGUSR2, which ranks start with ignored.
  explicit SignalPipe(const std::vector<int>& signals);
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  // Readable when a signal has arrived.
  int fd() const { return pipe_.read_end.get(); }
  // The oldest signal that has arrived and wasn't taken yet.
  std::optional<ReceivedSignal> Take();

 private:
  Pipe pipe_;
  std::vector<std::pair<int, struct sigaction>> previous_;
};

}  // namespace launch
