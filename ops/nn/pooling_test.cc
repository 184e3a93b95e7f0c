#include "ops/nn/pooling.h"

#include <gtest/gtest.h>
