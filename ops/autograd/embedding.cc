#include "ops/autograd/embedding.h"
