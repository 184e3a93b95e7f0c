#include "ops/nn/attention.h"
