#include "ops/nn/attention.h"

#include <gtest/gtest.h>
