#include "ops/cpu/attention.h"

#include <gtest/gtest.h>
