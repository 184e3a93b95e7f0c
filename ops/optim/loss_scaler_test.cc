// The numbers are those of PyTorch's GradScaler, worked out by its rules.
#include "ops/optim/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/optim/master_weights.h"
#include "ops/optim/sgd.h"

namespace ops::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A parameter whose gradient is, scaled, what is given.
std::vector<NamedTensor> WithGradient(double gradient, DType dtype = DType::kFloat32) {
  const Tensor leaf = SetRequiresGrad(Tensor::Zeros({3}, {.dtype = dtype}));
  SetGrad(leaf, Tensor::Full({3}, gradient, {.dtype = dtype}));
  return {{"w", leaf}};
}

// One step; returns the scale after it.
double Step(LossScaler& scaler, double gradient) {
  scaler.Unscale(WithGradient(gradient));
  scaler.Update();
  return scaler.scale();
}

TEST(LossScalerTest, DoublesAfter2000GoodStepsAndHalvesAfterABadOne) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  for (int step = 0; step < 1999; ++step) EXPECT_EQ(Step(scaler, 1), 65536);
  EXPECT_EQ(Step(scaler, 1), 131072);
  EXPECT_EQ(Step(scaler, kInfinity), 65536);
  EXPECT_EQ(Step(scaler, NAN), 32768);
  EXPECT_EQ(Step(scaler, -kInfinity), 16384);
}

TEST(LossScalerTest, ABadStepBeginsTheCountAnew) {
  LossScaler scaler({.initial_scale = 8, .growth_factor = 4, .growth_interval = 3});
  EXPECT_EQ(Step(scaler, 1), 8);
  EXPECT_EQ(Step(scaler, 1), 8);
  EXPECT_EQ(Step(scaler, kInfinity), 4);
  EXPECT_EQ(Step(scaler, 1), 4);
  EXPECT_EQ(Step(scaler, 1), 4);
  EXPECT_EQ(Step(scaler, 1), 16);
}

TEST(LossScalerTest, DoesNotGrowBeyondFloat32) {
  LossScaler scaler({.initial_scale = 0x1p127, .growth_interval = 1});
  EXPECT_EQ(Step(scaler, 1), 0x1p127);
}

TEST(LossScalerTest, UnscaleDividesAndSaysWhetherAllAreFinite) {
  LossScaler scaler({.initial_scale = 4});
  std::vector<NamedTensor> parameters = WithGradient(6);
  parameters.push_back({"unused", SetRequiresGrad(Tensor::Zeros({1}))});
  EXPECT_TRUE(scaler.Unscale(parameters));
  EXPECT_THAT(Grad(parameters[0].tensor).ToVector<float>(), ElementsAre(1.5, 1.5, 1.5));
  EXPECT_FALSE(Grad(parameters[1].tensor).defined());
  // Of another optimizer, in the same step.
  EXPECT_FALSE(scaler.Unscale(WithGradient(kInfinity)));
  EXPECT_TRUE(scaler.Unscale(WithGradient(1)));
  scaler.Update();
  EXPECT_EQ(scaler.scale(), 2);
}

// Gradients of 2^-26 are 0 in float16.
TEST(LossScalerTest, SmallGradientsSurviveFloat16) {
  const auto gradient = [](LossScaler& scaler) {
    const Tensor w = SetRequiresGrad(Tensor::Full({2}, 1, {.dtype = DType::kFloat16}));
    MasterWeights masters({{"w", w}});
    Backward(scaler.Scale(Sum(Cast(w, DType::kFloat32)) * 0x1p-26));
    masters.WidenGradients();
    EXPECT_TRUE(scaler.Unscale(masters.parameters()));
    return Grad(masters.parameters()[0].tensor).ToVector<double>()[0];
  };
  LossScaler scaler, of_one({.initial_scale = 1});
  EXPECT_EQ(gradient(of_one), 0);
  EXPECT_EQ(gradient(scaler), 0x1p-26);
}

// A gradient of 8 times 32768, 16384 or 8192 is more than float16 holds (65504): three steps are
// left out, the next is taken.
TEST(LossScalerTest, AnOverflowLeavesTheStepOutAndHalvesTheScale) {
  const Tensor w = SetRequiresGrad(Tensor::Full({2}, 1, {.dtype = DType::kFloat16}));
  MasterWeights masters({{"w", w}});
  Sgd optimizer(masters.parameters(), {.learning_rate = 0.125});
  LossScaler scaler({.initial_scale = 32768});
  std::vector<double> scales, weights;
  for (int step = 0; step < 4; ++step) {
    ClearGrad(w);
    Backward(scaler.Scale(Sum(Cast(w, DType::kFloat32)) * 8.0));
    masters.WidenGradients();
    if (scaler.Unscale(masters.parameters())) {
      optimizer.Step();
      masters.RoundIntoModel();
    }
    scaler.Update();
    scales.push_back(scaler.scale());
    weights.push_back(w.ToVector<double>()[0]);
  }
  EXPECT_THAT(scales, ElementsAre(16384, 8192, 4096, 4096));
  EXPECT_THAT(weights, ElementsAre(1, 1, 1, 0));
}

TEST(LossScalerTest, TheStateGoesOnWhereItWas) {
  LossScaler scaler({.growth_interval = 3}), other({.growth_interval = 3});
  Step(scaler, kInfinity);
  Step(scaler, 1);
  Step(scaler, 1);
  other.LoadStateDict(scaler.StateDict());
  EXPECT_EQ(other.scale(), 32768);
  EXPECT_EQ(Step(other, 1), 65536);
}

TEST(LossScalerTest, WhatMakesNoSenseIsRefused) {
  const auto refused = [](const char* message) {
    return ThrowsMessage<std::invalid_argument>(HasSubstr(message));
  };
  EXPECT_THAT([] { LossScaler({.initial_scale = 0}); }, refused("scale of a loss scaler is 0"));
  EXPECT_THAT([] { LossScaler({.initial_scale = kInfinity}); }, refused("inf"));
  EXPECT_THAT([] { LossScaler({.growth_factor = 1}); }, refused("growth_factor"));
  EXPECT_THAT([] { LossScaler({.backoff_factor = 1}); }, refused("backoff_factor"));
  EXPECT_THAT([] { LossScaler({.growth_interval = 0}); }, refused("growth_interval"));
  LossScaler scaler;
  EXPECT_THROW(scaler.Update(), std::logic_error);
  EXPECT_THAT(
      [&] {
        scaler.LoadStateDict({{"scale", Tensor::Scalar(2)}});
      },
      refused("no 'growth_tracker'"));
  EXPECT_EQ(scaler.scale(), 65536);
}

}  // namespace
}  // namespace ops::optim
