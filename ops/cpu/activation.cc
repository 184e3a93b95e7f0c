#include "ops/cpu/activation.h"
