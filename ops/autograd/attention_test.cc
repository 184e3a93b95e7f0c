#include "ops/autograd/attention.h"

#include <gtest/gtest.h>
