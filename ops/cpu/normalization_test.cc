#include "ops/cpu/normalization.h"

#include <gtest/gtest.h>
