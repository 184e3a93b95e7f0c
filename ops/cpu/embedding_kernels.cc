#include "ops/cpu/embedding_kernels.h"
