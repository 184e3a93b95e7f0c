#include "ops/cpu/softmax.h"
