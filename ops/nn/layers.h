// All layers. Parameter names, shapes and initial distributions are PyTorch's.
#pragma once

#include "ops/nn/activations.h"
#include "ops/nn/attention.h"
#include "ops/nn/containers.h"
#include "ops/nn/convolution.h"
#include "ops/nn/embedding.h"
#include "ops/nn/linear.h"
#include "ops/nn/normalization.h"
#include "ops/nn/pooling.h"
