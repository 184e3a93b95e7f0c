// The kernels that differentiable functions call: the one place that says on which device they run.
// ops/cuda will offer the same functions, and this header the choice between them.
#pragma once

#include "ops/cpu/activation.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/convolution.h"
#include "ops/cpu/convolution_weight_gradient.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/embedding.h"
#include "ops/cpu/loss.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/normalization.h"
#include "ops/cpu/pooling.h"
#include "ops/cpu/rearrange.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/rotary.h"
#include "ops/cpu/softmax.h"

namespace ops {

namespace kernels = cpu;

}  // namespace ops
