#include "ops/nn/embedding.h"

#include <gtest/gtest.h>
