#include "ops/autograd/normalization.h"
