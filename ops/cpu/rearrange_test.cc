#include "ops/cpu/rearrange.h"

#include <gtest/gtest.h>
