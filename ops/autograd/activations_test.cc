#include "ops/autograd/activations.h"

#include <gtest/gtest.h>
