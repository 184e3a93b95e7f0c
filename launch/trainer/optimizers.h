// Optimizers by name.
#pragma once

#include <memory>
#include <vector>

#include "launch/trainer/options.h"
#include "ops/optim/optimizer.h"

namespace launch {

// The one that `options` names, with its learning rate, momentum and weight decay. Throws
// std::invalid_argument for a name that isn't among KnownOptimizers().
std::unique_ptr<ops::optim::Optimizer> MakeOptimizer(const TrainOptions& options,
                                                     std::vector<ops::NamedTensor> parameters);

}  // namespace launch
