#include "ops/cpu/pooling_kernels.h"
