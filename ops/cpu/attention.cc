#include "ops/cpu/attention.h"
