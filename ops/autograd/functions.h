// Differentiable functions of tensors, all families: they compute at once and leave a tape behind
// when an input requires a gradient (grad.h). Each throws std::invalid_argument, with both shapes
// or dtypes, for inputs that don't go together.
//
// Floating point functions take float32, float64, bfloat16 and float16; the last two are storage:
// they are calculated in float32 and rounded once. NaN, infinity and empty tensors behave as IEEE
// and PyTorch say. The number of threads never changes a result.
#pragma once

#include "ops/autograd/activations.h"
#include "ops/autograd/attention.h"
#include "ops/autograd/convolution.h"
#include "ops/autograd/elementwise.h"
#include "ops/autograd/embedding.h"
#include "ops/autograd/loss.h"
#include "ops/autograd/matmul.h"
#include "ops/autograd/normalization.h"
#include "ops/autograd/pooling.h"
#include "ops/autograd/rearrange.h"
#include "ops/autograd/reduce.h"
#include "ops/autograd/softmax.h"
