// Attendance: while ranks may have different numbers of batches (join.h), who is still at work,
// told before each Backward that they do together. A rank that has no batch left hears so when the
// others need it.
#pragma once

#include <cstdint>

#include "ddp/collectives/process_group.h"

namespace ddp {

class Attendance {
 public:
  // Of the ranks that are at work.
  struct Roll {
    int num_active = 0;
    int first_active = 0;  // the lowest rank of these
    double weight = 0;     // the sum of theirs
  };

  explicit Attendance(ProcessGroup& group) : group_(group) {}

  // All ranks call it at the same time.
  Roll Call(bool is_active, double weight = 0);

  // The lowest of the ranks that were at work when last somebody was; the same on all ranks.
  int last_at_work() const { return last_at_work_; }

 private:
  ProcessGroup& group_;
  int last_at_work_ = 0;
};

}  // namespace ddp
