#include "ops/cpu/pooling.h"
