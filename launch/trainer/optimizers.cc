#include "launch/trainer/optimizers.h"

#include <stdexcept>
#include <utility>

#include "launch/text/text.h"
#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"

namespace launch {

std::unique_ptr<ops::optim::Optimizer> MakeOptimizer(const TrainOptions& options,
                                                     std::vector<ops::NamedTensor> parameters) {
  namespace optim = ops::optim;
  if (options.optimizer == "sgd") {
    return std::make_unique<optim::Sgd>(std::move(parameters),
                                        optim::SgdOptions{.learning_rate = options.learning_rate,
                                                          .momentum = options.momentum,
                                                          .weight_decay = options.weight_decay});
  }
  const optim::AdamOptions adam = {.learning_rate = options.learning_rate,
                                   .weight_decay = options.weight_decay};
  if (options.optimizer == "adam")
    return std::make_unique<optim::Adam>(std::move(parameters), adam);
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(std::move(parameters), adam);
  }
  throw std::invalid_argument(UnknownName("optimizer", options.optimizer, KnownOptimizers()));
}

}  // namespace launch
