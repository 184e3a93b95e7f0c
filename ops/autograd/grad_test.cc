// Gradients of leaves: where they lie, and when there is one. backward_test.cc has the walk.
#include "ops/autograd/grad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Leaf(std::vector<float> values) {
  return SetRequiresGrad(Tensor::FromVector(values, {static_cast<int64_t>(values.size())}));
}

TEST(GradTest, LeavesAndWhatIsComputedFromThemRequireGrad) {
  const Tensor w = Leaf({1, 2});
  const Tensor x = Tensor::Zeros({2});
  EXPECT_TRUE(RequiresGrad(w));
  EXPECT_TRUE(RequiresGrad(w * x));
  EXPECT_FALSE(RequiresGrad(x));
  EXPECT_FALSE(RequiresGrad(x * x));
  EXPECT_FALSE(RequiresGrad((w * x).Detach()));
  EXPECT_FALSE(RequiresGrad(Tensor()));
}

TEST(GradTest, NoneBeforeBackwardAndNoneWhenCleared) {
  const Tensor w = Leaf({1, 2});
  EXPECT_FALSE(Grad(w).defined());
  EXPECT_FALSE(GradPlace(w).defined());
  Backward(Sum(w * 3));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(3, 3));
  ClearGrad(w);
  EXPECT_FALSE(Grad(w).defined());
  EXPECT_TRUE(GradPlace(w).defined());
}

TEST(GradTest, AddsUpUntilClearedThenOverwritesTheSameMemory) {
  const Tensor w = Leaf({1, 2});
  Backward(Sum(w * 3));
  Backward(Sum(w * 4));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(7, 7));
  const void* memory = Grad(w).raw_data();
  ClearGrad(w);
  Backward(Sum(w * 5));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(5, 5));
  EXPECT_EQ(Grad(w).raw_data(), memory);
}

TEST(GradTest, PlaceGradMovesValuesAndStays) {
  const Tensor w = Leaf({1, 2});
  const Tensor bucket = Tensor::Full({4}, -1);
  Backward(Sum(w * 3));
  PlaceGrad(w, bucket.Slice(1, 3));
  EXPECT_THAT(bucket.ToVector<float>(), ElementsAre(-1, 3, 3, -1));
  Backward(Sum(w * 2));
  EXPECT_THAT(bucket.ToVector<float>(), ElementsAre(-1, 5, 5, -1));
  ClearGrad(w);
  Backward(Sum(w * 2));
  EXPECT_THAT(bucket.ToVector<float>(), ElementsAre(-1, 2, 2, -1));
}

TEST(GradTest, PlaceGradWithoutGradientLeavesItNone) {
  const Tensor w = Leaf({1, 2});
  const Tensor place = Tensor::Full({2}, 9);
  PlaceGrad(w, place);
  EXPECT_FALSE(Grad(w).defined());
  EXPECT_TRUE(GradPlace(w).IsSameAs(place));
  Backward(Sum(w));
  EXPECT_THAT(place.ToVector<float>(), ElementsAre(1, 1));
}

TEST(GradTest, SetGradCopiesIntoThePlace) {
  const Tensor w = Leaf({1, 2});
  const Tensor place = Tensor::Zeros({2});
  PlaceGrad(w, place);
  SetGrad(w, Tensor::Full({2}, 4));
  EXPECT_THAT(place.ToVector<float>(), ElementsAre(4, 4));
  Backward(Sum(w));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(5, 5));
}

TEST(GradTest, SeveralHandlesAreOneLeaf) {
  const Tensor w = Leaf({1, 2});
  const Tensor same = w;
  Backward(Sum(same * 3));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(3, 3));
}

TEST(GradTest, FrozenLeavesGetNoneAndKeepWhatTheyHad) {
  const Tensor w = Leaf({1, 2}), v = Leaf({5, 6});
  Backward(Sum(w * v));
  SetRequiresGrad(w, false);
  EXPECT_FALSE(RequiresGrad(w));
  EXPECT_FALSE(RequiresGrad(w * 2));
  Backward(Sum(w * v));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(5, 6));
  EXPECT_THAT(Grad(v).ToVector<float>(), ElementsAre(2, 4));
  SetRequiresGrad(w);
  Backward(Sum(w * v));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(10, 12));
}

TEST(GradTest, NoGradGuardLeavesNoTapeUntilTheOutermostEnds) {
  const Tensor w = Leaf({1, 2});
  {
    const NoGradGuard outer;
    { const NoGradGuard inner; }
    EXPECT_FALSE(RequiresGrad(w * 2));
    EXPECT_TRUE(RequiresGrad(w));
  }
  EXPECT_TRUE(RequiresGrad(w * 2));
}

TEST(GradTest, WhatCantBeALeaf) {
  EXPECT_THAT([] { SetRequiresGrad(Tensor::Zeros({3}, {.dtype = DType::kInt64})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("int64[3]")));
  EXPECT_THROW(SetRequiresGrad(Tensor()), std::invalid_argument);
  EXPECT_THAT(
      [] {
        SetRequiresGrad(Leaf({1, 2}) * 2);
      },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("float32[2]"), HasSubstr("Multiply"))));
}

TEST(GradTest, GradientsThatDontFitThrow) {
  const Tensor w = Leaf({1, 2});
  for (const Tensor& wrong : {Tensor::Zeros({3}), Tensor::Zeros({2}, {.dtype = DType::kFloat64})}) {
    EXPECT_THAT([&] { SetGrad(w, wrong); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(HasSubstr("float32[2]"), HasSubstr(wrong.Describe()))));
    EXPECT_THROW(PlaceGrad(w, wrong), std::invalid_argument);
  }
  EXPECT_THROW(SetGrad(w, Tensor()), std::invalid_argument);
  EXPECT_THAT([] { SetGrad(Tensor::Zeros({2}), Tensor::Zeros({2})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("SetRequiresGrad")));
  EXPECT_THROW(AddGradHook(Tensor::Zeros({2}), [](const Tensor&) {}), std::invalid_argument);
}

TEST(GradTest, ATensorWithoutGradientHasNone) {
  EXPECT_FALSE(Grad(Tensor::Zeros({2})).defined());
  EXPECT_FALSE(Grad(Leaf({1}) * 2).defined());
  EXPECT_NO_THROW(ClearGrad(Tensor::Zeros({2})));
}

}  // namespace
}  // namespace ops
