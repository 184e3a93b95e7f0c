#include "ops/optim/clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/autograd/grad.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"

namespace ops::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

NamedTensor WithGradient(const std::vector<float>& gradient) {
  const Shape shape{static_cast<int64_t>(gradient.size())};
  const Tensor parameter = SetRequiresGrad(Tensor::Zeros(shape));
  SetGrad(parameter, Tensor::FromVector(gradient, shape));
  return {"p", parameter};
}

std::vector<float> GradientOf(const NamedTensor& parameter) {
  return Grad(parameter.tensor).ToVector<float>();
}

TEST(ClipGradNormTest, ScalesAllGradientsAlike) {
  const std::vector<NamedTensor> parameters = {WithGradient({3, 4}), WithGradient({0, 12, 0})};
  EXPECT_DOUBLE_EQ(GradNorm(parameters), 13);
  EXPECT_DOUBLE_EQ(ClipGradNorm(parameters, 6.5), 13);
  EXPECT_THAT(GradientOf(parameters[0]), ElementsAre(FloatEq(1.4999999), FloatEq(1.9999999)));
  EXPECT_THAT(GradientOf(parameters[1]), ElementsAre(0, FloatEq(5.9999995), 0));
}

TEST(ClipGradNormTest, LeavesSmallGradientsAsTheyAre) {
  const std::vector<NamedTensor> parameters = {WithGradient({3, 4})};
  EXPECT_DOUBLE_EQ(ClipGradNorm(parameters, 5.1), 5);
  EXPECT_DOUBLE_EQ(ClipGradNorm(parameters, kInfinity), 5);
  EXPECT_THAT(GradientOf(parameters[0]), ElementsAre(3, 4));
  ClipGradNorm(parameters, 0);
  EXPECT_THAT(GradientOf(parameters[0]), ElementsAre(0, 0));
}

TEST(ClipGradNormTest, PassesOverParametersWithoutGradient) {
  const NamedTensor cleared = WithGradient({100}), with = WithGradient({1});
  ClearGrad(cleared.tensor);
  const NamedTensor frozen = {"frozen", Tensor::Zeros({3})};
  EXPECT_DOUBLE_EQ(ClipGradNorm({cleared, with, frozen}, 10), 1);
  EXPECT_DOUBLE_EQ(ClipGradNorm({frozen}, 10), 0);
  EXPECT_DOUBLE_EQ(ClipGradNorm({}, 10), 0);
}

TEST(ClipGradNormTest, WhatIsNotFiniteComesOutAsInPyTorch) {
  const std::vector<NamedTensor> infinite = {WithGradient({kInfinity, 4})};
  EXPECT_EQ(ClipGradNorm(infinite, 1), kInfinity);
  EXPECT_TRUE(std::isnan(GradientOf(infinite[0])[0]));
  EXPECT_EQ(GradientOf(infinite[0])[1], 0);
  const std::vector<NamedTensor> nan = {WithGradient({kNan, 4})};
  EXPECT_TRUE(std::isnan(ClipGradNorm(nan, 1)));
  EXPECT_TRUE(std::isnan(GradientOf(nan[0])[1]));
}

// The square of a large float32 is no float32.
TEST(ClipGradNormTest, LargeGradientsHaveANorm) {
  EXPECT_DOUBLE_EQ(GradNorm({WithGradient({0x1p100f, 0})}), 0x1p100);
}

TEST(ClipGradNormTest, DoesNotDependOnThreads) {
  Generator generator(1);
  const Tensor parameter = SetRequiresGrad(Tensor::Zeros({300'001}));
  SetGrad(parameter, Tensor::Randn({300'001}, generator));
  const double alone = GradNorm({{"p", parameter}});
  cpu::ThreadPool pool(2);
  const cpu::ScopedThreadPool use(&pool);
  EXPECT_EQ(GradNorm({{"p", parameter}}), alone);
}

TEST(ClipGradValueTest, BringsElementsIntoBounds) {
  const NamedTensor parameter = WithGradient({-3, -1, 0.5, 2, kInfinity, -kInfinity, kNan});
  ClipGradValue({parameter}, 1);
  const auto values = GradientOf(parameter);
  EXPECT_THAT(std::vector<float>(values.begin(), values.end() - 1),
              ElementsAre(-1, -1, 0.5, 1, 1, -1));
  EXPECT_TRUE(std::isnan(values.back()));
}

TEST(ClipTest, RefusesBoundsThatMakeNoSense) {
  EXPECT_THAT([] { ClipGradNorm({}, -1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("max_norm is -1")));
  EXPECT_THAT([] { ClipGradNorm({}, kNan); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("max_norm is nan")));
  EXPECT_THAT([] { ClipGradValue({}, -1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("limit is -1")));
}

}  // namespace
}  // namespace ops::optim
