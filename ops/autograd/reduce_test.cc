#include <fmt/format.h>
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const Shape kShapes[] = {{}, {0}, {1}, {3}, {17}, {3, 17}, {0, 3}, {3, 0}, {2, 3, 5}};

// Checks function(x), and function(y) + y for a computed y, where it adds a second part.
void ExpectGradientsMatch(const std::function<Tensor(const Tensor&)>& function,
                          const Shape& shape) {
  Generator generator(3);
  SCOPED_TRACE(shape.ToString());
  const auto call = [&](const std::vector<Tensor>& in) { return function(in[0]); };
  EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}));
  EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}, {.accumulate = true}));
  EXPECT_TRUE(GradientsMatch(
      [&](const std::vector<Tensor>& in) {
        const Tensor y = in[0] * 2;
        return Sum(function(y)) + Sum(y * y);
      },
      {RandomLeaf(shape, generator)}));
}

TEST(SumTest, GradientsMatchDifferences) {
  for (const Shape& shape : kShapes) {
    ExpectGradientsMatch([](const Tensor& x) { return Sum(x); }, shape);
    for (int dim = -shape.rank(); dim < shape.rank(); ++dim) {
      SCOPED_TRACE(dim);
      ExpectGradientsMatch([dim](const Tensor& x) { return Sum(x, dim); }, shape);
    }
  }
}

TEST(SumTest, Values) {
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {1, 2, 3});
  EXPECT_EQ(Sum(x).Item(), 21);
  EXPECT_EQ(Sum(x).shape(), Shape{});
  EXPECT_EQ(Sum(x, 1).shape(), (Shape{1, 3}));
  EXPECT_THAT(Sum(x, 1).ToVector<float>(), ElementsAre(5, 7, 9));
  EXPECT_THAT(Sum(x, -1).ToVector<float>(), ElementsAre(6, 15));
  EXPECT_THAT(Sum(x, 0).ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Sum(Tensor::Zeros({0, 3}), 0).ToVector<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(Sum(Tensor::Zeros({0, 3}), 1).ToVector<float>(), IsEmpty());
  EXPECT_EQ(Sum(Tensor::Zeros({0})).Item(), 0);
}

TEST(SumTest, RefusesADimensionThatIsntThere) {
  for (int dim : {-3, 2, 100}) {
    EXPECT_THAT(
        [&] {
          Sum(Tensor::Zeros({2, 3}), dim);
        },
        ThrowsMessage<std::invalid_argument>(
            AllOf(HasSubstr("[2, 3]"), HasSubstr(fmt::format("{}", dim)))));
  }
  EXPECT_THROW(Sum(Tensor()), std::invalid_argument);
}

TEST(MeanTest, GradientsMatchDifferences) {
  for (const Shape& shape : kShapes) {
    if (shape.num_elements() == 0) continue;  // its mean is NaN, and so are the differences
    ExpectGradientsMatch([](const Tensor& x) { return Mean(x); }, shape);
  }
}

TEST(MeanTest, Values) {
  EXPECT_EQ(Mean(Tensor::FromVector<float>({1, 2, 6}, {3})).Item(), 3);
  EXPECT_TRUE(std::isnan(Mean(Tensor::Zeros({0})).Item()));
  // 100,000 is not a float16; the mean of so many ones is.
  EXPECT_EQ(Mean(Tensor::Full({100'000}, 1, {.dtype = DType::kFloat16})).Item(), 1);
}

TEST(SumTest, OverSeveralDimensions) {
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  EXPECT_THAT(Sum(x, {0, 2}).ToVector<float>(), ElementsAre(14, 22));
  EXPECT_THAT(Sum(x, {-1, 0}).ToVector<float>(), ElementsAre(14, 22));
  EXPECT_EQ(Sum(x, {0, 2}, /*keep_dims=*/true).shape(), (Shape{1, 2, 1}));
  EXPECT_THAT(Sum(x, {0, 1, 2}).ToVector<float>(), ElementsAre(36));
  EXPECT_EQ(Sum(x, {0, 1, 2}).shape(), Shape{});
  for (const bool keep : {false, true}) {
    ExpectGradientsMatch([=](const Tensor& x) { return Sum(x, {0, 2}, keep); }, {2, 3, 5});
    ExpectGradientsMatch([=](const Tensor& x) { return Sum(x, {1, -1}, keep); }, {2, 3, 5});
    ExpectGradientsMatch([=](const Tensor& x) { return Sum(x, {0, 1}, keep); }, {3, 0});
  }
  EXPECT_THAT(
      ([&] {
        Sum(x, {0, -3});
      }),
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("[0, -3]"), HasSubstr("twice"))));
  EXPECT_THAT([&] { Sum(x, std::initializer_list<int>()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no dimensions")));
}

TEST(MeanTest, OverDimensions) {
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(Mean(x, 1).ToVector<float>(), ElementsAre(2, 5));
  EXPECT_THAT(Mean(x, {0}, /*keep_dims=*/true).ToVector<float>(), ElementsAre(2.5, 3.5, 4.5));
  EXPECT_EQ(Mean(x, {0}, /*keep_dims=*/true).shape(), (Shape{1, 3}));
  EXPECT_TRUE(std::isnan(Mean(Tensor::Zeros({1, 0}), 1).Item()));
  ExpectGradientsMatch([](const Tensor& x) { return Mean(x, {0, 2}); }, {2, 3, 5});
  ExpectGradientsMatch([](const Tensor& x) { return Mean(x, -1); }, {2, 3, 5});
}

TEST(MaxTest, ValuesAndIndices) {
  const Tensor x = Tensor::FromVector<float>({1, 5, 5, 7, 2, 3}, {2, 3});
  const MaxResult largest = Max(x, 1);
  EXPECT_THAT(largest.values.ToVector<float>(), ElementsAre(5, 7));
  EXPECT_THAT(largest.indices.ToVector<int32_t>(), ElementsAre(1, 0));
  EXPECT_EQ(largest.indices.dtype(), DType::kInt64);
  EXPECT_EQ(Max(x, 0, /*keep_dim=*/true).values.shape(), (Shape{1, 3}));
  EXPECT_THAT(ArgMax(x, -2).ToVector<int32_t>(), ElementsAre(1, 0, 0));
  EXPECT_EQ(Max(x).Item(), 7);
  EXPECT_EQ(Max(x).shape(), Shape{});
  EXPECT_EQ(Max(Tensor::Zeros({0, 3}), 1).values.shape(), Shape{0});
  EXPECT_THAT(
      [] {
        Max(Tensor::Zeros({2, 0}), 1);
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("[2, 0]")));
  EXPECT_THAT([] { Max(Tensor::Zeros({0})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("empty")));
  EXPECT_THAT([&] { ArgMax(x, 2); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("dimension 2")));
}

TEST(MaxTest, TheElementFoundGetsTheGradient) {
  for (const int dim : {0, 1, 2}) {
    ExpectGradientsMatch([=](const Tensor& x) { return Max(x, dim).values; }, {3, 4, 5});
    ExpectGradientsMatch([=](const Tensor& x) { return Max(x, dim, true).values; }, {3, 4, 5});
  }
  ExpectGradientsMatch([](const Tensor& x) { return Max(x); }, {3, 4});
  const Tensor x = SetRequiresGrad(Tensor::Full({3}, 1));
  Backward(Max(x));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(1, 0, 0));
}

}  // namespace
}  // namespace ops
