#include "ops/cpu/normalization_kernels.h"
