#include "ops/nn/pooling.h"
