#include "ops/cpu/normalization.h"
