#include "ops/autograd/convolution.h"
