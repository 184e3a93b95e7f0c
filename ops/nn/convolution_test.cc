#include "ops/nn/convolution.h"

#include <gtest/gtest.h>
