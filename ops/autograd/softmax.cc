#include "ops/autograd/softmax.h"
