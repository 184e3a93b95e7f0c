#include "ops/nn/normalization.h"

#include <gtest/gtest.h>
