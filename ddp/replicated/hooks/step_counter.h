// StepCounter: which step of training a hook is in, from the buckets that pass it.
#pragma once

#include <cstdint>

#include "ddp/replicated/communication_hook.h"

namespace ddp {

class StepCounter {
 public:
  // The step, from 0, that this bucket belongs to; the last bucket ends it.
  int64_t StepOf(const GradientBucket& bucket) {
    return bucket.index + 1 == bucket.num_buckets ? num_ended_++ : num_ended_;
  }

 private:
  int64_t num_ended_ = 0;
};

}  // namespace ddp
