#include "launch/trainer/optimizers.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "launch/text/text.h"
#include "ops/optim/adam.h"
#include "ops/optim/lion.h"
#include "ops/optim/sgd.h"

namespace launch {

std::unique_ptr<ops::optim::Optimizer> MakeOptimizer(const TrainOptions& options,
                                                     std::vector<ops::NamedTensor> parameters) {
  namespace optim = ops::optim;
  if (options.optimizer == "sgd") {
    return std::make_unique<optim::Sgd>(std::move(parameters),
                                        optim::SgdOptions{.learning_rate = options.learning_rate,
                                                          .momentum = options.momentum,
                                                          .weight_decay = options.weight_decay,
                                                          .nesterov = options.nesterov});
  }
  if (options.optimizer == "lion") {
    return std::make_unique<optim::Lion>(std::move(parameters),
                                         optim::LionOptions{.learning_rate = options.learning_rate,
                                                            .weight_decay = options.weight_decay});
  }
  const optim::AdamOptions adam = {.learning_rate = options.learning_rate,
                                   .weight_decay = options.weight_decay};
  if (options.optimizer == "adam") {
    return std::make_unique<optim::Adam>(std::move(parameters), adam);
  }
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(std::move(parameters), adam);
  }
  throw std::invalid_argument(UnknownName("optimizer", options.optimizer, KnownOptimizers()));
}

ops::optim::ScheduleOptions MakeSchedule(const TrainOptions& options, int64_t total_steps) {
  const int64_t third = std::max<int64_t>(1, total_steps / 3);
  return {.schedule = ops::optim::ParseSchedule(options.schedule),
          .total_steps = total_steps,
          .warmup_steps = std::min(options.warmup_steps, total_steps - 1),
          .step_size = options.step_size == 0 ? third : options.step_size};
}

}  // namespace launch
