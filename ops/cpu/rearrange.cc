#include "ops/cpu/rearrange.h"
