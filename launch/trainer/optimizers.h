// Optimizers and schedules by name.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "launch/trainer/options.h"
#include "ops/optim/optimizer.h"
#include "ops/optim/schedule.h"

namespace launch {

// The one that `options` names, with its learning rate, momentum and weight decay. Throws
// std::invalid_argument for a name that isn't among KnownOptimizers().
std::unique_ptr<ops::optim::Optimizer> MakeOptimizer(const TrainOptions& options,
                                                     std::vector<ops::NamedTensor> parameters);

// That of a training of `total_steps`, at least 1. A warm-up that is longer ends with it.
ops::optim::ScheduleOptions MakeSchedule(const TrainOptions& options, int64_t total_steps);

}  // namespace launch
