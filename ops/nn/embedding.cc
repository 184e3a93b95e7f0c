#include "ops/nn/embedding.h"
