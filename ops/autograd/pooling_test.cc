#include "ops/autograd/pooling.h"

#include <gtest/gtest.h>
