// The kernels that optimizers call: where ops/cuda will come in, as in ops/autograd/kernels.h.
#pragma once

#include "ops/cpu/elementwise.h"
#include "ops/cpu/optimizer.h"
#include "ops/cpu/reduce.h"

namespace ops {

namespace kernels = cpu;

}  // namespace ops
