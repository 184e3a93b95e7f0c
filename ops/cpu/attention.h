// Self-attention on the CPU.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {}
