// For tests: are a function's gradients the slopes of its values?
//
//   EXPECT_TRUE(GradientsMatch(
//       [](const std::vector<Tensor>& in) { return Multiply(in[0], in[1]); },
//       {RandomLeaf({3, 17}, generator), RandomLeaf({17}, generator)}));
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace ops {

// A float64 tensor of standard normal values that requires a gradient.
Tensor RandomLeaf(const Shape& shape, Generator& generator);

struct GradientCheckOptions {
  double step = 1e-6;       // of the central differences
  double tolerance = 1e-7;  // of |gradient - difference| / (1 + |difference|)
  bool accumulate = false;  // calls Backward twice, and expects twice the gradient
};

// Compares Backward through `function` with central differences, for every element of every input
// that requires a gradient (float64). The output may have any shape: its elements are weighted with
// random numbers and summed. Inputs that require none must have none afterwards. The failure
// message names input, element and both values. Leaves the inputs without gradients.
testing::AssertionResult GradientsMatch(
    const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
    const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {});

}  // namespace ops
