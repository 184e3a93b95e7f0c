// The loss functions, beside the layers where PyTorch's users look for them.
#pragma once

#include "ops/autograd/loss.h"

namespace ops::nn {

using ops::BceWithLogitsLoss;
using ops::CrossEntropyLoss;
using ops::HuberLoss;
using ops::L1Loss;
using ops::MseLoss;

}  // namespace ops::nn
