#include "ops/cpu/embedding.h"

#include <gtest/gtest.h>
