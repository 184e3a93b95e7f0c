#include "ops/autograd/attention.h"
