#include "ops/autograd/pooling.h"
