#include "ops/cpu/rearrange_kernels.h"
