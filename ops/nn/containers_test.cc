#include "ops/nn/containers.h"

#include <gtest/gtest.h>
