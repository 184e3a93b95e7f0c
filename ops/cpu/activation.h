// Nonlinear functions on the CPU, element by element, and dropout.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {}
