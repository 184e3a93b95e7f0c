#include "ops/autograd/softmax.h"

#include <gtest/gtest.h>
