#include "ops/cpu/activation.h"

#include <gtest/gtest.h>
