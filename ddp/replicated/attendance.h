// Attendance: while ranks may have different numbers of batches (join.h), what they are about to do
// together, told before each time. A rank that has none left hears so what the others need of it.
#pragma once

#include <cstdint>

#include "ddp/collectives/process_group.h"

namespace ddp {

class Attendance {
 public:
  enum class Intent { kNothing, kBuffers, kGradients };

  struct Roll {
    Intent intent = Intent::kNothing;  // of those who are still at work; kNothing when nobody is
    int num_active = 0;
    int first_active = 0;  // the lowest rank of these
    double weight = 0;     // the sum of theirs
  };

  explicit Attendance(ProcessGroup& group) : group_(group) {}

  // All ranks call it at the same time: those at work with what they are about to do, the others
  // with kNothing. Throws std::logic_error on all of them when intents differ.
  Roll Call(Intent mine, double weight = 0);

  // The lowest of the ranks that were at work when last somebody was; the same on all ranks.
  int last_at_work() const { return last_at_work_; }

 private:
  ProcessGroup& group_;
  int last_at_work_ = 0;
};

}  // namespace ddp
