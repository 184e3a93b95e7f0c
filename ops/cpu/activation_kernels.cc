#include "ops/cpu/activation_kernels.h"
