#include "ops/cpu/convolution.h"
