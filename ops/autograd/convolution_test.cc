#include "ops/autograd/convolution.h"

#include <gtest/gtest.h>
