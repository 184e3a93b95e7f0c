#include "ops/cpu/convolution_kernels.h"
