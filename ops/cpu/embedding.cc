#include "ops/cpu/embedding.h"
