#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Matrix(const Shape& shape, std::vector<double> values) {
  return Tensor::FromVector(values, shape);
}

TEST(MatMulTest, Values) {
  const Tensor a = Matrix({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = Matrix({3, 2}, {1, 0, 0, 1, 2, -1});
  const auto expected = ElementsAre(7, -1, 16, -1);
  EXPECT_THAT(MatMul(a, b).ToVector<double>(), expected);
  const Tensor a_transposed = Matrix({3, 2}, {1, 4, 2, 5, 3, 6});
  const Tensor b_transposed = Matrix({2, 3}, {1, 0, 2, 0, 1, -1});
  EXPECT_THAT(MatMul(a_transposed, b, {.transpose_a = true}).ToVector<double>(), expected);
  EXPECT_THAT(MatMul(a, b_transposed, {.transpose_b = true}).ToVector<double>(), expected);
  EXPECT_THAT(MatMul(a_transposed, b_transposed, {.transpose_a = true, .transpose_b = true})
                  .ToVector<double>(),
              expected);
}

TEST(MatMulTest, GradientsMatchDifferences) {
  Generator generator(1);
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      const auto product = [&](const std::vector<Tensor>& in) {
        return MatMul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
      };
      for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
               {1, 1, 1}, {3, 17, 5}, {17, 3, 1}, {0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 5, 17}}) {
        SCOPED_TRACE(fmt::format("m = {}, k = {}, n = {}, {}, {}", m, k, n, ta, tb));
        const Tensor a = RandomLeaf(ta ? Shape{k, m} : Shape{m, k}, generator);
        const Tensor b = RandomLeaf(tb ? Shape{n, k} : Shape{k, n}, generator);
        EXPECT_TRUE(GradientsMatch(product, {a, b}));
        EXPECT_TRUE(GradientsMatch(product, {a, b}, {.accumulate = true}));
        EXPECT_TRUE(GradientsMatch(product, {a, b.Detach()}));
        EXPECT_TRUE(GradientsMatch(product, {a.Detach(), b}));
      }
    }
  }
}

TEST(MatMulTest, GradientsOfOneTensorGivenTwice) {
  Generator generator(1);
  EXPECT_TRUE(GradientsMatch([](const std::vector<Tensor>& in) { return MatMul(in[0], in[0]); },
                             {RandomLeaf({5, 5}, generator)}));
  EXPECT_TRUE(GradientsMatch(
      [](const std::vector<Tensor>& in) {
        const Tensor x = in[0] * 2;
        return MatMul(x, x, {.transpose_b = true});
      },
      {RandomLeaf({3, 5}, generator)}));
}

TEST(MatMulTest, GradientsOfBroadcastBatches) {
  Generator generator(1);
  const std::vector<std::pair<Shape, Shape>> leading = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{3}, {}}, {{}, {3}}, {{2, 0}, {}}};
  const auto with = [](const Shape& shape, int64_t rows, int64_t columns) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(rows);
    dims.push_back(columns);
    return Shape(std::span<const int64_t>(dims));
  };
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto product = [&](const std::vector<Tensor>& in) {
        return MatMul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb});
      };
      for (const auto& [a_leading, b_leading] : leading) {
        const Tensor a = RandomLeaf(with(a_leading, ta ? 4 : 2, ta ? 2 : 4), generator);
        const Tensor b = RandomLeaf(with(b_leading, tb ? 5 : 4, tb ? 4 : 5), generator);
        SCOPED_TRACE(fmt::format("{} and {}", a.Describe(), b.Describe()));
        EXPECT_EQ(product({a, b}).shape(), with(BroadcastShapes("", a_leading, b_leading), 2, 5));
        EXPECT_TRUE(GradientsMatch(product, {a, b}));
        EXPECT_TRUE(GradientsMatch(product, {a, b}, {.accumulate = true}));
      }
    }
  }
}

TEST(MatMulTest, EveryFloatingDType) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Tensor a = SetRequiresGrad(Matrix({1, 2}, {1, 2}).To(dtype));
    const Tensor b = SetRequiresGrad(Matrix({1, 2}, {3, 4}).To(dtype));
    const Tensor y = MatMul(a, b, {.transpose_b = true});
    EXPECT_EQ(y.Item(), 11);
    Backward(y);
    EXPECT_THAT(Grad(a).ToVector<float>(), ElementsAre(3, 4));
    EXPECT_THAT(Grad(b).ToVector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(Linear(a, b, Matrix({1}, {10}).To(dtype)).ToVector<float>(), ElementsAre(21));
  }
}

TEST(MatMulTest, RefusesOtherShapes) {
  const auto expect_refused = [](const Shape& a, const Shape& b, const MatMulFlags& flags) {
    EXPECT_THAT([&] { MatMul(Tensor::Zeros(a), Tensor::Zeros(b), flags); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(HasSubstr("MatMul"), HasSubstr(a.ToString()), HasSubstr(b.ToString()))));
  };
  expect_refused({2, 3}, {2, 3}, {});
  expect_refused({2, 3}, {3, 4}, {.transpose_b = true});
  expect_refused({2, 3}, {3, 4}, {.transpose_a = true});
  expect_refused({3}, {3, 4}, {});
  expect_refused({2, 2, 3}, {3, 3, 4}, {});
  expect_refused({2, 2, 3}, {2, 4, 4}, {});
  EXPECT_THROW(MatMul(Tensor::Zeros({2, 2}), Tensor::Zeros({2, 2}, {DType::kFloat64})),
               std::invalid_argument);
}

TEST(LinearTest, Values) {
  const Tensor x = SetRequiresGrad(Matrix({2, 2}, {1, 2, 3, 4}));
  const Tensor weight = SetRequiresGrad(Matrix({3, 2}, {1, 0, 0, 1, 2, -1}));
  const Tensor bias = SetRequiresGrad(Matrix({3}, {10, 20, 30}));
  const Tensor y = Linear(x, weight, bias);
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_THAT(y.ToVector<double>(), ElementsAre(11, 22, 30, 13, 24, 32));
  Backward(y, Matrix({2, 3}, {1, 0, 0, 0, 1, 2}));
  EXPECT_THAT(Grad(x).ToVector<double>(), ElementsAre(1, 0, 4, -1));
  EXPECT_THAT(Grad(weight).ToVector<double>(), ElementsAre(1, 2, 3, 4, 6, 8));
  EXPECT_THAT(Grad(bias).ToVector<double>(), ElementsAre(1, 1, 2));
}

TEST(LinearTest, GradientsMatchDifferences) {
  Generator generator(1);
  const auto linear = [](const std::vector<Tensor>& in) {
    return Linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor());
  };
  for (const Shape& x_shape :
       {Shape{1, 5}, Shape{17, 5}, Shape{5}, Shape{2, 3, 5}, Shape{0, 5}, Shape{2, 0, 5}}) {
    for (int64_t out : {1, 3, 17}) {
      SCOPED_TRACE(fmt::format("{} to {}", x_shape.ToString(), out));
      const Tensor x = RandomLeaf(x_shape, generator), w = RandomLeaf({out, 5}, generator);
      const Tensor b = RandomLeaf({out}, generator);
      EXPECT_TRUE(GradientsMatch(linear, {x, w, b}));
      EXPECT_TRUE(GradientsMatch(linear, {x, w, b}, {.accumulate = true}));
      EXPECT_TRUE(GradientsMatch(linear, {x, w}));
      EXPECT_TRUE(GradientsMatch(linear, {x.Detach(), w, b}));
      EXPECT_TRUE(GradientsMatch(linear, {x, w.Detach(), b}));
      EXPECT_TRUE(GradientsMatch(linear, {x, w, b.Detach()}));
      EXPECT_TRUE(GradientsMatch(linear, {x.Detach(), w.Detach(), b}));
    }
  }
}

// The same layer applied twice: its gradients get two parts in one Backward.
TEST(LinearTest, GradientsOfSharedWeights) {
  Generator generator(1);
  EXPECT_TRUE(GradientsMatch(
      [](const std::vector<Tensor>& in) {
        return Linear(Linear(in[0], in[1], in[2]), in[1], in[2]);
      },
      {RandomLeaf({3, 5}, generator), RandomLeaf({5, 5}, generator), RandomLeaf({5}, generator)}));
}

TEST(LinearTest, RefusesOtherShapes) {
  const Tensor weight = Tensor::Zeros({10, 1024}), bias = Tensor::Zeros({10});
  EXPECT_THAT(
      [&] {
        Linear(Tensor::Zeros({64, 784}), weight, bias);
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("Linear"), HasSubstr("[64, 784]"), HasSubstr("[10, 1024]"))));
  EXPECT_THAT(
      [&] {
        Linear(Tensor::Zeros({64, 1024}), weight, Tensor::Zeros({11}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("bias [11]"), HasSubstr("[10, 1024]"), HasSubstr("[10]"))));
  EXPECT_THROW(Linear(Tensor::Scalar(1), weight, bias), std::invalid_argument);
  EXPECT_THROW(Linear(Tensor(), weight, bias), std::invalid_argument);
  EXPECT_THROW(Linear(Tensor::Zeros({2, 1024}, {DType::kFloat64}), weight, bias),
               std::invalid_argument);
}

}  // namespace
}  // namespace ops
