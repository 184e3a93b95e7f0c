#include "ops/cpu/convolution.h"

#include <gtest/gtest.h>
