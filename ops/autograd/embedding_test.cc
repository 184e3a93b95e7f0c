#include "ops/autograd/embedding.h"

#include <gtest/gtest.h>
