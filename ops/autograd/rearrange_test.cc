#include "ops/autograd/rearrange.h"

#include <gtest/gtest.h>
