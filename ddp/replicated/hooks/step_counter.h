// StepCounter: which step of training a hook is in, from the buckets that pass it.
#pragma once

#include <cstdint>

#include "ddp/replicated/communication_hook.h"

namespace ddp {

class StepCounter {
 public:
  // `first_step` were taken before, by a training that this one goes on with.
  explicit StepCounter(int64_t first_step = 0) : num_ended_(first_step) {}

  // The step, from 0, that this bucket belongs to; the last bucket ends it.
  int64_t StepOf(const GradientBucket& bucket) {
    return bucket.index + 1 == bucket.num_buckets ? num_ended_++ : num_ended_;
  }

 private:
  int64_t num_ended_;
};

}  // namespace ddp
