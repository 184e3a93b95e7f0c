#include "ops/nn/convolution.h"
