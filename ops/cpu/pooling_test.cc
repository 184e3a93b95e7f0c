#include "ops/cpu/pooling.h"

#include <gtest/gtest.h>
