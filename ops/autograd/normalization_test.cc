#include "ops/autograd/normalization.h"

#include <gtest/gtest.h>
