#include "ops/nn/activations.h"

#include <gtest/gtest.h>
