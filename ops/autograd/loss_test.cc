#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

TEST(MseLossTest, Values) {
  const Tensor x = SetRequiresGrad(Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2}));
  const Tensor target = Tensor::FromVector<float>({1, 0, 3, 8}, {2, 2});
  const Tensor loss = MseLoss(x, target);
  EXPECT_EQ(loss.shape(), Shape{});
  EXPECT_EQ(loss.Item(), 5);
  Backward(loss);
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(0, 1, 0, -2));
}

TEST(MseLossTest, GradientsMatchDifferences) {
  Generator generator(1);
  const auto loss = [](const std::vector<Tensor>& in) { return MseLoss(in[0], in[1]); };
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{3}, Shape{17}, Shape{3, 17}}) {
    SCOPED_TRACE(shape.ToString());
    const Tensor x = RandomLeaf(shape, generator), target = RandomLeaf(shape, generator);
    EXPECT_TRUE(GradientsMatch(loss, {x, target}));
    EXPECT_TRUE(GradientsMatch(loss, {x, target}, {.accumulate = true}));
    EXPECT_TRUE(GradientsMatch(loss, {x, target.Detach()}));
    EXPECT_TRUE(GradientsMatch(loss, {x.Detach(), target}));
  }
}

TEST(MseLossTest, OfNothingIsNan) {
  EXPECT_TRUE(std::isnan(MseLoss(Tensor::Zeros({0}), Tensor::Zeros({0})).Item()));
}

TEST(MseLossTest, RefusesToBroadcast) {
  EXPECT_THAT(
      [] {
        MseLoss(Tensor::Zeros({10, 2}), Tensor::Zeros({2}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("MseLoss"), HasSubstr("[10, 2]"), HasSubstr("[2]"))));
  EXPECT_THAT([] { MseLoss(Tensor::Zeros({2}), Tensor::Zeros({2}, {DType::kFloat64})); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("float32[2]"), HasSubstr("float64[2]"))));
}

using LossFunction = Tensor (*)(const Tensor& x, const Tensor& target, Reduction reduction);

const LossFunction kElementLosses[] = {
    MseLoss, L1Loss, BceWithLogitsLoss,
    [](const Tensor& x, const Tensor& target, Reduction reduction) {
      return HuberLoss(x, target, 0.6, reduction);
    }};

TEST(ElementwiseLossTest, GradientsMatchDifferencesWithEveryReduction) {
  Generator generator(1);
  for (const LossFunction loss : kElementLosses) {
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
      const auto f = [=](const std::vector<Tensor>& in) { return loss(in[0], in[1], reduction); };
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 17}, Shape{0, 2}}) {
        SCOPED_TRACE(shape.ToString());
        const Tensor x = RandomLeaf(shape, generator), target = RandomLeaf(shape, generator);
        if (shape.num_elements() > 0) {
          EXPECT_TRUE(GradientsMatch(f, {x, target}));
          EXPECT_TRUE(GradientsMatch(f, {x, target}, {.accumulate = true}));
          EXPECT_TRUE(GradientsMatch(f, {x.Detach(), target}));
        }
        EXPECT_EQ(f({x, target}).shape(), reduction == Reduction::kNone ? shape : Shape{});
      }
    }
  }
}

TEST(ElementwiseLossTest, Values) {
  const Tensor x = Tensor::FromVector<double>({1, -2, 0}, {3});
  const Tensor target = Tensor::FromVector<double>({1.5, 1, 0}, {3});
  EXPECT_EQ(L1Loss(x, target, Reduction::kSum).Item(), 3.5);
  EXPECT_THAT(HuberLoss(x, target, 1, Reduction::kNone).ToVector<double>(),
              ElementsAre(0.125, 2.5, 0));
  EXPECT_NEAR(BceWithLogitsLoss(Tensor::Zeros({2}), Tensor::Full({2}, 0.3)).Item(), std::log(2),
              1e-7);
}

TEST(ElementwiseLossTest, RefusesWhatHasNoMeaning) {
  const Tensor x = Tensor::Zeros({2});
  EXPECT_THAT([&] { HuberLoss(x, x, 0); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("delta is 0")));
  EXPECT_THROW(HuberLoss(x, x, std::nan("")), std::invalid_argument);
  const Tensor integers = Tensor::Zeros({2}, {.dtype = DType::kInt64});
  EXPECT_THAT([&] { L1Loss(integers, integers); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("int64[2]")));
  EXPECT_THAT([&] { BceWithLogitsLoss(x, Tensor::Zeros({1})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("BceWithLogitsLoss: input [2]")));
}

Tensor Targets(std::vector<int64_t> classes) {
  return Tensor::FromVector(classes, {static_cast<int64_t>(classes.size())});
}

// Two rows with softmax (1/4, 3/4) and (1/2, 1/2).
TEST(CrossEntropyLossTest, Values) {
  const Tensor logits = SetRequiresGrad(Tensor::FromVector<double>({0, std::log(3), 2, 2}, {2, 2}));
  const Tensor loss = CrossEntropyLoss(logits, Targets({1, 0}));
  EXPECT_EQ(loss.shape(), Shape{});
  EXPECT_NEAR(loss.Item(), (std::log(4.0 / 3) + std::log(2)) / 2, 1e-15);
  Backward(loss);
  const std::vector<double> expected = {0.125, -0.125, -0.25, 0.25};
  EXPECT_THAT(Grad(logits).ToVector<double>(), Pointwise(testing::DoubleNear(1e-15), expected));
}

TEST(CrossEntropyLossTest, LargeLogitsDontOverflow) {
  const Tensor logits = Tensor::FromVector<float>({1e30f, 0, -1e30f, 1000, 1001, 999}, {2, 3});
  EXPECT_EQ(CrossEntropyLoss(logits.Slice(0, 1), Targets({0})).Item(), 0);
  EXPECT_NEAR(CrossEntropyLoss(logits.Slice(1, 2), Targets({1})).Item(),
              std::log(1 + std::exp(-1) + std::exp(-2)), 1e-6);
}

TEST(CrossEntropyLossTest, GradientsMatchDifferences) {
  Generator generator(1);
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 3}, Shape{3, 17}, Shape{17, 10}}) {
    SCOPED_TRACE(shape.ToString());
    std::vector<int64_t> classes;
    for (int64_t i = 0; i < shape[0]; ++i) {
      classes.push_back(static_cast<int64_t>(generator.Below(shape[1])));
    }
    const auto loss = [targets = Targets(classes)](const std::vector<Tensor>& in) {
      return CrossEntropyLoss(in[0], targets);
    };
    EXPECT_TRUE(GradientsMatch(loss, {RandomLeaf(shape, generator)}));
    EXPECT_TRUE(GradientsMatch(loss, {RandomLeaf(shape, generator)}, {.accumulate = true}));
  }
}

TEST(CrossEntropyLossTest, GradientsMatchDifferencesWithOptions) {
  Generator generator(1);
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
    for (const double smoothing : {0.0, 0.2, 1.0}) {
      const auto loss = [=](const std::vector<Tensor>& in) {
        return CrossEntropyLoss(
            in[0], Tensor::FromVector<int64_t>({0, 2, 4, 2, 1, 3}, {2, 3}),
            {.ignore_index = 2, .label_smoothing = smoothing, .reduction = reduction});
      };
      EXPECT_TRUE(GradientsMatch(loss, {RandomLeaf({2, 3, 5}, generator)}));
      EXPECT_TRUE(GradientsMatch(loss, {RandomLeaf({2, 3, 5}, generator)}, {.accumulate = true}));
    }
  }
}

TEST(CrossEntropyLossTest, IgnoredRowsCountNeitherInSumNorInMean) {
  const Tensor logits = SetRequiresGrad(Tensor::FromVector<double>({0, 0, 5, 7}, {2, 2}));
  const Tensor loss = CrossEntropyLoss(logits, Targets({1, -100}));
  EXPECT_NEAR(loss.Item(), std::log(2), 1e-15);
  Backward(loss);
  EXPECT_THAT(Grad(logits).ToVector<double>(), ElementsAre(0.5, -0.5, 0, 0));
  EXPECT_THAT(CrossEntropyLoss(logits, Targets({-100, 1}), {.reduction = Reduction::kNone})
                  .ToVector<double>(),
              ElementsAre(0, DoubleNear(std::log1p(std::exp(-2)), 1e-15)));
  EXPECT_TRUE(std::isnan(CrossEntropyLoss(logits, Targets({-100, -100})).Item()));
}

TEST(CrossEntropyLossTest, OneExampleWithoutABatch) {
  const Tensor logits = Tensor::FromVector<double>({0, 0}, {2});
  const Tensor target = Tensor::Scalar(1, {.dtype = DType::kInt64});
  EXPECT_NEAR(CrossEntropyLoss(logits, target).Item(), std::log(2), 1e-15);
}

TEST(CrossEntropyLossTest, RefusesOtherShapesAndClasses) {
  const Tensor logits = Tensor::Zeros({2, 3});
  const auto refused = [&](const Tensor& targets) {
    return [&logits, targets] { CrossEntropyLoss(logits, targets); };
  };
  EXPECT_THAT(refused(Targets({0, 1, 2})), ThrowsMessage<std::invalid_argument>(AllOf(
                                               HasSubstr("float32[2, 3]"), HasSubstr("int64[3]"))));
  EXPECT_THAT(refused(Tensor::Zeros({2})),
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("int64 targets"), HasSubstr("float32[2]"))));
  EXPECT_THAT(refused(Targets({0, 3})), ThrowsMessage<std::invalid_argument>(HasSubstr("3")));
  EXPECT_THAT(refused(Targets({-1, 0})), ThrowsMessage<std::invalid_argument>(HasSubstr("-1")));
  EXPECT_THROW(CrossEntropyLoss(Tensor(), Targets({0})), std::invalid_argument);
  EXPECT_THAT(
      [&] {
        CrossEntropyLoss(logits, Targets({0, 0}), {.label_smoothing = 1.5});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("label_smoothing is 1.5")));
}

}  // namespace
}  // namespace ops
