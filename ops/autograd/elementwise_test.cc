#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct BinaryFunction {
  std::string name;
  Tensor (*call)(const Tensor& a, const Tensor& b);
  double (*value)(double a, double b);
};

class BinaryFunctionTest : public testing::TestWithParam<BinaryFunction> {
 protected:
  // Away from 0, where a quotient's slope is too steep for differences.
  Tensor Draw(const Shape& shape) {
    Tensor leaf = RandomLeaf(shape, generator_);
    for (double& element : leaf.elements<double>()) element += element < 0 ? -0.5 : 0.5;
    return leaf;
  }

  Generator generator_{7};
};

const Shape kShapes[][2] = {
    {{}, {}},
    {{0}, {0}},
    {{1}, {1}},
    {{3}, {3}},
    {{17}, {17}},
    {{3, 17}, {3, 17}},
    {{3, 17}, {17}},
    {{17}, {3, 17}},
    {{3, 17}, {}},
    {{}, {3, 17}},
    {{3, 1}, {1, 17}},
    {{3, 17}, {3, 1}},
    {{2, 1, 5}, {3, 1}},
    {{0, 3}, {3}},
    {{0, 3}, {0, 1}},
    {{5, 1}, {}},
    {{1}, {2, 3, 4}},
    {{2, 3, 4}, {2, 1, 4}},
};

TEST_P(BinaryFunctionTest, GradientsMatchDifferences) {
  const auto function = [](const std::vector<Tensor>& in) { return GetParam().call(in[0], in[1]); };
  for (const auto& [a, b] : kShapes) {
    SCOPED_TRACE(a.ToString() + " with " + b.ToString());
    EXPECT_TRUE(GradientsMatch(function, {Draw(a), Draw(b)}));
    EXPECT_TRUE(GradientsMatch(function, {Draw(a), Draw(b)}, {.accumulate = true}));
    EXPECT_TRUE(GradientsMatch(function, {Draw(a), Draw(b).Detach()}));
    EXPECT_TRUE(GradientsMatch(function, {Draw(a).Detach(), Draw(b)}));
  }
}

TEST_P(BinaryFunctionTest, GradientsOfOneTensorGivenTwice) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 17}}) {
    EXPECT_TRUE(
        GradientsMatch([](const std::vector<Tensor>& in) { return GetParam().call(in[0], in[0]); },
                       {Draw(shape)}));
    // And where it is computed itself.
    EXPECT_TRUE(GradientsMatch(
        [](const std::vector<Tensor>& in) {
          const Tensor x = in[0] * 0.5;
          return GetParam().call(x, x) + x;
        },
        {Draw(shape)}));
  }
}

TEST_P(BinaryFunctionTest, ValuesBroadcast) {
  const Tensor a = Tensor::FromVector<double>({1, -2, 3}, {3, 1});
  const Tensor b = Tensor::FromVector<double>({4, 0.5}, {2});
  const auto f = GetParam().value;
  EXPECT_THAT(GetParam().call(a, b).ToVector<double>(),
              ElementsAre(f(1, 4), f(1, 0.5), f(-2, 4), f(-2, 0.5), f(3, 4), f(3, 0.5)));
  EXPECT_EQ(GetParam().call(a, b).shape(), (Shape{3, 2}));
}

TEST_P(BinaryFunctionTest, EveryDType) {
  for (DType dtype : kAllDTypes) {
    const Tensor a = Tensor::Full({17}, 6, {.dtype = dtype}), b = Tensor::Full({}, 3, {dtype});
    EXPECT_EQ(GetParam().call(a, b).dtype(), dtype);
    EXPECT_EQ(GetParam().call(a, b).ToVector<double>()[16], GetParam().value(6, 3));
  }
}

TEST_P(BinaryFunctionTest, RefusesOtherShapesAndDTypes) {
  const Tensor a = Tensor::Zeros({2, 3});
  EXPECT_THAT([&] { GetParam().call(a, Tensor::Zeros({2})); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr(GetParam().name), HasSubstr("[2, 3]"), HasSubstr("[2]"))));
  EXPECT_THAT(
      [&] { GetParam().call(a, a.To(DType::kFloat64)); },
      ThrowsMessage<std::invalid_argument>(AllOf(
          HasSubstr(GetParam().name), HasSubstr("float32[2, 3]"), HasSubstr("float64[2, 3]"))));
  EXPECT_THAT([&] { GetParam().call(a, Tensor()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("undefined")));
}

INSTANTIATE_TEST_SUITE_P(
    All, BinaryFunctionTest,
    testing::Values(BinaryFunction{"Add", Add, [](double a, double b) { return a + b; }},
                    BinaryFunction{"Subtract", Subtract, [](double a, double b) { return a - b; }},
                    BinaryFunction{"Multiply", Multiply, [](double a, double b) { return a * b; }},
                    BinaryFunction{"Divide", Divide, [](double a, double b) { return a / b; }}),
    [](const auto& info) { return info.param.name; });

using Unary = std::function<Tensor(const Tensor&)>;

void ExpectGradientsMatch(const Unary& function) {
  Generator generator(3);
  const auto call = [&function](const std::vector<Tensor>& in) { return function(in[0]); };
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3}, Shape{17}, Shape{5, 17}}) {
    SCOPED_TRACE(shape.ToString());
    EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}));
    EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}, {.accumulate = true}));
    // A computed input that is used a second time.
    EXPECT_TRUE(GradientsMatch(
        [&](const std::vector<Tensor>& in) {
          const Tensor x = in[0] * 2;
          return function(x) + x;
        },
        {RandomLeaf(shape, generator)}));
  }
}

TEST(ScalarOperandTest, GradientsMatchDifferences) {
  ExpectGradientsMatch([](const Tensor& x) { return x * 3; });
  ExpectGradientsMatch([](const Tensor& x) { return -0.5 * x; });
  ExpectGradientsMatch([](const Tensor& x) { return x / 4; });
  ExpectGradientsMatch([](const Tensor& x) { return x + 3; });
  ExpectGradientsMatch([](const Tensor& x) { return x - 3; });
}

TEST(ScalarOperandTest, Values) {
  const Tensor x = Tensor::FromVector<float>({1, -2}, {2});
  EXPECT_THAT((x * 3).ToVector<float>(), ElementsAre(3, -6));
  EXPECT_THAT((3 * x).ToVector<float>(), ElementsAre(3, -6));
  EXPECT_THAT((x / 4).ToVector<float>(), ElementsAre(0.25, -0.5));
  EXPECT_THAT((x + 3).ToVector<float>(), ElementsAre(4, 1));
  EXPECT_THAT((x - 3).ToVector<float>(), ElementsAre(-2, -5));
  EXPECT_THROW(Tensor() * 2, std::invalid_argument);
  EXPECT_THROW(Tensor() + 2, std::invalid_argument);
}

TEST(ScalarOperandTest, IntegersAreNotForFractions) {
  const Tensor x = Tensor::FromVector<int64_t>({1, -2}, {2});
  const auto refused = ThrowsMessage<std::invalid_argument>(HasSubstr("int64"));
  EXPECT_THAT([&] { x * 0.5; }, refused);
  EXPECT_THAT([&] { x / 2; }, refused);
  EXPECT_THAT([&] { x + 0.5; }, refused);
}

TEST(ComparisonTest, Values) {
  const Tensor a = Tensor::FromVector<float>({1, 2, 3, std::nanf("")}, {4});
  const Tensor b = Tensor::FromVector<float>({2, 2, 2, 2}, {4});
  EXPECT_THAT(Equal(a, b).ToVector<int32_t>(), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(NotEqual(a, b).ToVector<int32_t>(), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(Less(a, b).ToVector<int32_t>(), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(LessEqual(a, b).ToVector<int32_t>(), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(Greater(a, b).ToVector<int32_t>(), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(GreaterEqual(a, b).ToVector<int32_t>(), ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(Greater(a, Tensor::Scalar(1)).dtype(), DType::kUInt8);
  EXPECT_FALSE(RequiresGrad(Less(SetRequiresGrad(Tensor::Zeros({2})), Tensor::Zeros({2}))));
  EXPECT_THAT([&] { Less(a, Tensor::Zeros({3})); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("Less"), HasSubstr("[3]"))));
}

TEST(WhereTest, GradientsMatchDifferences) {
  const std::vector<Shape> kShapes[] = {
      {{3, 7}, {3, 7}, {3, 7}}, {{3, 7}, {}, {7}},    {{7}, {3, 7}, {3, 1}},
      {{3, 1}, {7}, {}},        {{}, {3, 7}, {3, 7}}, {{0, 7}, {7}, {}},
  };
  Generator generator(3);
  for (const auto& shapes : kShapes) {
    const Tensor condition = Less(Tensor::Randn(shapes[0], generator), Tensor::Scalar(0));
    const auto where = [&](const std::vector<Tensor>& in) {
      return Where(condition, in[0], in[1]);
    };
    const Tensor a = RandomLeaf(shapes[1], generator), b = RandomLeaf(shapes[2], generator);
    EXPECT_TRUE(GradientsMatch(where, {a, b}));
    EXPECT_TRUE(GradientsMatch(where, {a, b}, {.accumulate = true}));
    EXPECT_TRUE(GradientsMatch(where, {a, b.Detach()}));
    EXPECT_TRUE(GradientsMatch(where, {a.Detach(), b}));
  }
}

TEST(WhereTest, WhatIsntChosenHasGradientZeroEvenBesideNan) {
  const Tensor x = SetRequiresGrad(Tensor::FromVector<float>({-1, 4}, {2}));
  const Tensor y = SetRequiresGrad(Tensor::Full({2}, std::nan("")));
  const Tensor chosen = Where(Greater(x, Tensor::Scalar(0)), x, y);
  EXPECT_TRUE(std::isnan(chosen.ToVector<float>()[0]));
  Backward(chosen, Tensor::FromVector<float>({2, 3}, {2}));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(0, 3));
  EXPECT_THAT(Grad(y).ToVector<float>(), ElementsAre(2, 0));
}

TEST(WhereTest, RefusesWhatDoesntFit) {
  const Tensor x = Tensor::Zeros({2}), condition = Tensor::Zeros({2}, {.dtype = DType::kUInt8});
  EXPECT_THAT([&] { Where(x, x, x); }, ThrowsMessage<std::invalid_argument>(AllOf(
                                           HasSubstr("float32[2]"), HasSubstr("expected uint8"))));
  EXPECT_THAT([&] { Where(condition, x, x.To(DType::kFloat64)); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("float64[2]")));
  EXPECT_THAT([&] { Where(condition, x, Tensor::Zeros({3})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("[3]")));
}

TEST(CastTest, ValuesAndGradients) {
  const Tensor x = SetRequiresGrad(Tensor::FromVector<float>({1.5, -2.25}, {2}));
  const Tensor y = Cast(x, DType::kFloat64);
  EXPECT_EQ(y.dtype(), DType::kFloat64);
  Backward(Sum(y * y));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(3, -4.5));
  Backward(Sum(Cast(x, DType::kBFloat16)));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(4, -3.5));
  EXPECT_TRUE(Cast(x, DType::kFloat32).IsSameAs(x));
  const Tensor integers = Cast(x, DType::kInt32);
  EXPECT_THAT(integers.ToVector<int32_t>(), ElementsAre(1, -2));
  EXPECT_FALSE(RequiresGrad(integers));
  EXPECT_THROW(Cast(Tensor(), DType::kFloat32), std::invalid_argument);
}

}  // namespace
}  // namespace ops
