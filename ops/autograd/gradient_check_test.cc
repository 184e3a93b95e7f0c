#include "ops/autograd/gradient_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/autograd/functions.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using ::testing::HasSubstr;

// x^2, whose way back says `factor` x instead of 2 x.
Tensor Square(const Tensor& x, double factor) {
  const Tensor detached = x.Detach();
  Tensor square = detached * detached;
  if (!NeedsTape({x})) return square;
  return Record("Square", square, {x}, [detached, factor](const Tensor& dy, Node& node) {
    node.input(0)->Add(factor * (dy * detached));
  });
}

TEST(GradientCheckTest, AcceptsTheRightGradient) {
  Generator generator(1);
  const auto square = [](const std::vector<Tensor>& in) { return Square(in[0], 2); };
  EXPECT_TRUE(GradientsMatch(square, {RandomLeaf({3, 5}, generator)}));
  EXPECT_TRUE(GradientsMatch(square, {RandomLeaf({}, generator)}, {.accumulate = true}));
}

TEST(GradientCheckTest, RefusesAWrongOneAndSaysWhere) {
  Generator generator(1);
  const auto result =
      GradientsMatch([](const std::vector<Tensor>& in) { return in[0] + Square(in[1], 2.0001); },
                     {RandomLeaf({2}, generator), RandomLeaf({2}, generator)});
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message(), HasSubstr("element 0 of input 1"));
}

TEST(GradientCheckTest, RefusesAMissingGradient) {
  Generator generator(1);
  const auto result =
      GradientsMatch([](const std::vector<Tensor>& in) { return in[0] + in[1].Detach(); },
                     {RandomLeaf({2}, generator), RandomLeaf({2}, generator)});
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message(), HasSubstr("input 1 has no gradient"));
}

}  // namespace
}  // namespace ops
