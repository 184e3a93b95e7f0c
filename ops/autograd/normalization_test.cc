#include "ops/autograd/normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
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

using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

// With and without parameters, and with each input alone requiring a gradient.
void ExpectGradientsMatch(const Shape& shape, const Shape& parameters, const Norm& norm) {
  SCOPED_TRACE(shape.ToString());
  Generator generator(5);
  const auto leaf = [&](const Shape& of) { return RandomLeaf(of, generator); };
  const Tensor x = leaf(shape), weight = leaf(parameters), bias = leaf(parameters);
  const auto call = [&](const std::vector<Tensor>& in) { return norm(in[0], in[1], in[2]); };
  const GradientCheckOptions options = {.tolerance = 1e-6},
                             twice = {.tolerance = 1e-6, .accumulate = true};
  EXPECT_TRUE(GradientsMatch(call, {x, weight, bias}, options));
  EXPECT_TRUE(GradientsMatch(call, {x, weight, bias}, twice));
  EXPECT_TRUE(GradientsMatch(call, {x.Detach(), weight, bias.Detach()}, options));
  EXPECT_TRUE(GradientsMatch(call, {x.Detach(), weight.Detach(), bias}, options));
  EXPECT_TRUE(GradientsMatch(
      [&](const std::vector<Tensor>& in) {
        const Tensor computed = in[0] * 2;
        return norm(computed, {}, {}) + computed;
      },
      {x}, options));
}

TEST(LayerNormTest, GradientsMatchDifferences) {
  ExpectGradientsMatch({3, 17}, {17}, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return LayerNorm(x, 1, w, b, 1e-2);
  });
  ExpectGradientsMatch({2, 5, 2, 3}, {2, 3}, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return LayerNorm(x, 2, w, b, 1e-2);
  });
}

TEST(RmsNormTest, GradientsMatchDifferences) {
  ExpectGradientsMatch({3, 2, 7}, {7}, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    const Tensor y = RmsNorm(x, w, 1e-2);
    return b.defined() ? y + b : y;
  });
}

TEST(GroupNormTest, GradientsMatchDifferences) {
  for (const Shape& shape : {Shape{2, 6, 3, 2}, Shape{3, 6}, Shape{2, 6, 5}}) {
    ExpectGradientsMatch(shape, {6}, [](const Tensor& x, const Tensor& w, const Tensor& b) {
      return GroupNorm(x, 2, w, b, 1e-2);
    });
  }
}

// relu's kink is where no value lies.
Tensor BatchNormOf(const Tensor& x, const Tensor& w, const Tensor& b, bool training, bool relu) {
  const Tensor mean = Tensor::Full({x.dim(1)}, 0.25), var = Tensor::Full({x.dim(1)}, 2);
  return BatchNorm(x, w, b, mean, var, {.training = training, .epsilon = 1e-2, .relu = relu});
}

TEST(BatchNormTest, GradientsMatchDifferences) {
  for (const Shape& shape : {Shape{3, 2, 2, 3}, Shape{7, 5}, Shape{2, 3, 4}}) {
    for (const bool training : {true, false}) {
      for (const bool relu : {true, false}) {
        ExpectGradientsMatch(shape, {shape[1]},
                             [=](const Tensor& x, const Tensor& w, const Tensor& b) {
                               return BatchNormOf(x, w, b, training, relu);
                             });
      }
    }
  }
}

// The other holders have a fixed part of the batch, and losses that don't depend on it.
class FixedPart : public StatisticsExchange {
 public:
  explicit FixedPart(std::vector<double> part) : part_(std::move(part)) {}
  std::vector<double> Gather(std::span<const double> mine) override {
    std::vector<double> all = part_;
    all.insert(all.end(), mine.begin(), mine.end());
    return all;
  }
  void Sum(std::span<double>) override { ++num_sums; }

  int num_sums = 0;

 private:
  std::vector<double> part_;
};

TEST(BatchNormTest, GradientsOfAPartMatchDifferences) {
  const auto others = std::make_shared<FixedPart>(std::vector<double>{5, 1, -2, 0.5, 2});
  for (const Shape& shape : {Shape{3, 2, 2, 3}, Shape{1, 2}, Shape{7, 2}}) {
    for (const bool relu : {true, false}) {
      ExpectGradientsMatch(shape, {2}, [=](const Tensor& x, const Tensor& w, const Tensor& b) {
        return BatchNorm(x, w, b, {}, {}, {.epsilon = 1e-2, .relu = relu, .exchange = others});
      });
    }
  }
}

TEST(BatchNormTest, StatisticsAreThoseOfAllParts) {
  // Of 1, 3, 5 and -1: the mean is 2, the variance 5.
  const auto others = std::make_shared<FixedPart>(std::vector<double>{3, 3, 8.0 / 3});
  const Tensor x = SetRequiresGrad(Tensor::Full({1, 1}, -1));
  const Tensor mean = Tensor::Zeros({1}), var = Tensor::Zeros({1});
  const Tensor weight = SetRequiresGrad(Tensor::Full({1}, 1));
  const BatchNormOptions options = {.momentum = 1, .epsilon = 0, .exchange = others};
  EXPECT_FLOAT_EQ(BatchNorm(x, {}, {}, mean, var, options).Item(), -3 / std::sqrt(5.0));
  EXPECT_FLOAT_EQ(mean.Item(), 2);
  EXPECT_FLOAT_EQ(var.Item(), 20.0 / 3);
  // Nothing is sent for the gradient of a weight alone.
  Backward(BatchNorm(x.Detach(), weight, {}, {}, {}, options));
  EXPECT_FLOAT_EQ(Grad(weight).Item(), -3 / std::sqrt(5.0));
  EXPECT_EQ(others->num_sums, 0);
}

constexpr double kRoot = 1.22474487139158905;  // of 3 / 2

TEST(LayerNormTest, Values) {
  const Tensor x = Tensor::FromVector<double>({1, 2, 3, -2, -4, -6}, {2, 3});
  const Tensor weight = Tensor::FromVector<double>({1, 2, 10}, {3});
  const Tensor bias = Tensor::FromVector<double>({0, 1, 0}, {3});
  const std::vector<double> expected = {-kRoot, 1, 10 * kRoot, kRoot, 1, -10 * kRoot};
  EXPECT_THAT(LayerNorm(x, 1, weight, bias, 0).ToVector<double>(),
              Pointwise(DoubleNear(1e-14), expected));
}

TEST(RmsNormTest, Values) {
  const Tensor x = Tensor::FromVector<double>({1, -7, 3, 4}, {2, 2});
  const Tensor weight = Tensor::FromVector<double>({1, 2}, {2});
  const std::vector<double> expected = {0.2, -2.8, 3 / std::sqrt(12.5), 8 / std::sqrt(12.5)};
  EXPECT_THAT(RmsNorm(x, weight, 0).ToVector<double>(), Pointwise(DoubleNear(1e-14), expected));
}

TEST(BatchNormTest, MovesTheRunningStatisticsInTrainingOnly) {
  const Tensor x = Tensor::FromVector<float>({1, 2, 3}, {3, 1});
  const Tensor mean = Tensor::Full({1}, 1), var = Tensor::Full({1}, 1);
  BatchNorm(x, {}, {}, mean, var, {.momentum = 0.5});
  EXPECT_EQ(mean.Item(), 1.5);
  EXPECT_EQ(var.Item(), 1);  // the unbiased one of 1, 2, 3
  EXPECT_THAT(BatchNorm(x, {}, {}, mean, var, {.training = false, .epsilon = 3}).ToVector<float>(),
              ElementsAre(-0.25, 0.25, 0.75));
  EXPECT_EQ(mean.Item(), 1.5);
  BatchNorm(x, {}, {}, {}, {});
}

TEST(NormalizationTest, OfNothing) {
  const Tensor nothing = SetRequiresGrad(Tensor::Zeros({0, 4, 3}));
  const Tensor weight = SetRequiresGrad(Tensor::Full({4}, 1));
  const Tensor running = Tensor::Full({4}, 1);
  EXPECT_EQ(LayerNorm(nothing, 1, {}, {}).shape(), nothing.shape());
  for (const Tensor& y : {GroupNorm(nothing, 2, weight, {}),
                          BatchNorm(nothing, weight, {}, running, running, {.training = false})}) {
    EXPECT_EQ(y.shape(), nothing.shape());
    ClearGrad(weight);
    Backward(y, Tensor::Zeros(y.shape()));
    EXPECT_THAT(Grad(weight).ToVector<float>(), ElementsAre(0, 0, 0, 0));
  }
}

TEST(NormalizationTest, RefusesWhatDoesntFit) {
  const auto refused = [](auto... parts) {
    return ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(parts)...));
  };
  const Tensor x = Tensor::Zeros({4, 6}), six = Tensor::Zeros({6}), four = Tensor::Zeros({4});
  EXPECT_THAT([&] { LayerNorm(x, 1, four, {}); },
              refused("LayerNorm", "weight [4]", "[4, 6]", "[6]"));
  EXPECT_THAT([&] { LayerNorm(x, 3, {}, {}); }, refused("3 dimensions", "[4, 6]", "1 to 2"));
  EXPECT_THAT([&] { LayerNorm(x, 1, six, six.To(DType::kFloat64)); },
              refused("float64[6]", "float32[4, 6]"));
  EXPECT_THAT([&] { RmsNorm(x, four); }, refused("RmsNorm", "[4]", "[6]"));
  EXPECT_THAT([&] { RmsNorm(Tensor::Scalar(1), {}); }, refused("RmsNorm", "scalar"));
  EXPECT_THAT([&] { GroupNorm(x, 4, {}, {}); }, refused("4 groups", "[4, 6]"));
  EXPECT_THAT([&] { GroupNorm(x, 0, {}, {}); }, refused("0 groups"));
  EXPECT_THAT([&] { GroupNorm(six, 1, {}, {}); }, refused("[batch, channels, ...]", "[6]"));
  EXPECT_THAT([&] { BatchNorm(x, four, {}, {}, {}); }, refused("BatchNorm", "weight [4]", "[6]"));
  EXPECT_THAT([&] { BatchNorm(x, {}, {}, four, four); }, refused("float32[4]", "expected [6]"));
  EXPECT_THAT([&] { BatchNorm(x, {}, {}, {}, {}, {.training = false}); }, refused("running_mean"));
  EXPECT_THAT([&] { BatchNorm(x.Slice(0, 1), {}, {}, {}, {}); }, refused("2 values", "[1, 6]"));
  EXPECT_THAT([&] { LayerNorm(Tensor::Zeros({2}, {DType::kInt64}), 1, {}, {}); },
              refused("int64[2]"));
  EXPECT_THROW(BatchNorm({}, {}, {}, {}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace ops
