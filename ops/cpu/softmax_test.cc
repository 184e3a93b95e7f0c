#include "ops/cpu/softmax.h"

#include <gtest/gtest.h>
