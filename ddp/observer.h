// Observer: told what collectives and replication do, as it happens. monitoring/ makes metrics of
// it; a program may do with it what it likes.
//
//   struct Printer : ddp::Observer {
//     void OnBackward(const BackwardReport& report) override {
//       fmt::print("{} exposed\n", ddp::FormatSeconds(report.exposed));
//     }
//   };
//
// Without an observer nothing is measured for one. Functions must be quick, must not throw, and
// must not call the group: what they do holds up the training.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/operation.h"
#include "ddp/duration.h"

namespace ddp {

// One operation of a process group.
struct CollectiveReport {
  std::string_view group;
  std::string_view backend;
  OperationKind kind = OperationKind::kBarrier;
  int64_t sequence_number = 0;
  int64_t num_bytes = 0;  // of this rank's buffer
  Clock::time_point issued = {};
  Clock::time_point started = {};  // its turn came
  Clock::time_point ended = {};
  bool failed = false;
};

// One bucket of gradients in one Backward.
struct BucketReport {
  int index = 0;  // in the order in which buckets travel
  int64_t num_bytes = 0;
  Clock::time_point ready;    // its last gradient was complete, or known not to come
  Clock::time_point started;  // it was its turn to travel, and it was handed over
  Clock::time_point reduced;  // seen to have arrived: the end of waiting, if there was any
  Duration waited{};          // by Backward, after its own work was done
};

// One Backward that averaged gradients.
struct BackwardReport {
  Clock::time_point started;   // the first gradient was complete
  Clock::time_point walked;    // Backward's own work was done
  Clock::time_point finished;  // gradients are averages
  Duration exposed{};          // of it, waiting for other ranks or for the bytes of others
  std::span<const BucketReport> buckets;
  std::span<const std::string> unused;  // parameters that this rank didn't reach
};

class Observer {
 public:
  virtual ~Observer() = default;

  // On the thread that issues operations of a group.
  virtual void OnIssued(const CollectiveReport&) {}
  // On the thread that runs them: the group's own or the one that waits.
  virtual void OnStarted(const CollectiveReport&) {}
  virtual void OnEnded(const CollectiveReport&) {}

  // On the thread that trains.
  virtual void OnForward(Duration) {}
  virtual void OnBackward(const BackwardReport&) {}
};

}  // namespace ddp
