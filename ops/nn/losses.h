// The loss functions, beside the layers where PyTorch's users look for them.
#pragma once

#include "ops/autograd/functions.h"

namespace ops::nn {

using ops::CrossEntropyLoss;
using ops::MseLoss;

}  // namespace ops::nn
