#include "ops/nn/normalization.h"
