// RootCause: which rank brought the others down, from how each of them ended.
//
// When a rank fails, its peers fail a moment later because they lost it, and the agent ends the
// rest. Only the first is worth telling. Causes come in this order, the earliest first among
// equals: a fault of the rank's own (an exception, a signal, an exit code), the loss of a peer, an
// end that the agent asked for. A rank whose peers fail because it has ended as if all were done
// "left early", and is the one that is named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/agent/report.h"

namespace launch {

// How a rank ended.
struct RankEnd {
  int rank = 0;
  int wait_status = 0;  // as waitpid gives it
  TimePoint time;       // when the agent noticed
  // What the agent had sent it before.
  int stop_signal = 0;      // that asked it to end; 0: none
  bool was_killed = false;  // SIGKILL
  std::optional<RankReport> report;

  bool failed() const { return wait_status != 0 && !asks_for_requeue(); }
  // Whether it ended with kRequeueExitCode.
  bool asks_for_requeue() const;
  // Whether the rank failed by itself: not by losing a peer, and not because the agent said so.
  bool is_own_fault() const;
};

struct Failure {
  int exit_code = 0;  // of the whole job; 128+n for a signal n
  int rank = 0;
  std::string reason;  // "rank 1 failed: killed by signal 9 (Killed)"
};

// Nothing when no rank failed.
std::optional<Failure> RootCause(const std::vector<RankEnd>& ends);

// Of a status as waitpid gives it; 128+n for signal n.
int ExitCode(int wait_status);

// "signal 9 (Killed)"
std::string DescribeSignal(int signal);

}  // namespace launch
