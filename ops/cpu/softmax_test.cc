#include "ops/cpu/softmax.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr SoftmaxKind kKinds[] = {SoftmaxKind::kPlain, SoftmaxKind::kLog};

using Values = std::vector<double>;

double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-14;
    case DType::kFloat16:
      return 1e-3;
    case DType::kBFloat16:
      return 8e-3;
    default:
      return 1e-6;
  }
}

void ExpectNear(const Tensor& actual, const Values& expected, double tolerance) {
  const Values values = actual.ToVector<double>();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

// Calls f with the indices of the elements of each row or column along `dim`.
template <class F>
void ForEachAlong(const Shape& shape, int dim, F f) {
  int64_t stride = 1;
  for (int i = dim + 1; i < shape.rank(); ++i) stride *= shape.dim(i);
  for (int64_t first = 0; first < shape.num_elements(); ++first) {
    if (first / stride % shape.dim(dim) != 0) continue;
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < shape.dim(dim); ++i) indices.push_back(first + i * stride);
    f(indices);
  }
}

Values Reference(SoftmaxKind kind, const Tensor& x, int dim) {
  Values y = x.ToVector<double>();
  ForEachAlong(x.shape(), dim, [&](const std::vector<int64_t>& indices) {
    double sum = 0;
    for (const int64_t i : indices) sum += std::exp(y[i]);
    for (const int64_t i : indices) {
      y[i] = kind == SoftmaxKind::kLog ? y[i] - std::log(sum) : std::exp(y[i]) / sum;
    }
  });
  return y;
}

// From y as it was rounded.
Values ReferenceGradient(SoftmaxKind kind, const Tensor& rounded_y, const Tensor& dy, int dim) {
  const Values y = rounded_y.ToVector<double>();
  Values dx = dy.ToVector<double>();
  ForEachAlong(dy.shape(), dim, [&](const std::vector<int64_t>& indices) {
    double sum = 0;
    for (const int64_t i : indices) sum += kind == SoftmaxKind::kLog ? dx[i] : y[i] * dx[i];
    for (const int64_t i : indices) {
      dx[i] = kind == SoftmaxKind::kLog ? dx[i] - std::exp(y[i]) * sum : y[i] * (dx[i] - sum);
    }
  });
  return dx;
}

void ExpectSoftmaxIsRight(SoftmaxKind kind, DType dtype, const Shape& shape, int dim) {
  SCOPED_TRACE(fmt::format("{} {} along {}", Name(dtype), shape.ToString(), dim));
  const Tensor x = RandomTensor(shape, dtype, 1, 3), dy = RandomTensor(shape, dtype, 2);
  const Tensor y = Misaligned(shape, dtype), dx = Misaligned(shape, dtype);
  SoftmaxForward(kind, x, dim, y);
  ExpectNear(y, Reference(kind, x, dim), Tolerance(dtype));
  Values expected = ReferenceGradient(kind, y, dy, dim);
  SoftmaxBackward(kind, y, dy, dim, dx, /*accumulate=*/false);
  ExpectNear(dx, expected, 10 * Tolerance(dtype));
  SoftmaxBackward(kind, y, dy, dim, dx, /*accumulate=*/true);
  for (double& value : expected) value *= 2;
  ExpectNear(dx, expected, 10 * Tolerance(dtype));
}

TEST(SoftmaxTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const SoftmaxKind kind : kKinds) {
      for (const DType dtype : kFloatingDTypes) {
        for (const int64_t length : kLengths) {
          ExpectSoftmaxIsRight(kind, dtype, {3, length}, 1);
          ExpectSoftmaxIsRight(kind, dtype, {length, 3}, 0);
          ExpectSoftmaxIsRight(kind, dtype, {5, length}, 0);
          ExpectSoftmaxIsRight(kind, dtype, {2, 7, length}, 1);
        }
      }
    }
  });
}

TEST(SoftmaxTest, OfAScalarIsOne) {
  const Tensor y = Tensor::Empty({});
  SoftmaxForward(SoftmaxKind::kPlain, Tensor::Scalar(-1e30), 0, y);
  EXPECT_EQ(y.Item(), 1);
}

TEST(SoftmaxTest, LargeValuesNeitherOverflowNorVanish) {
  ForEachIsa([] {
    const Tensor x = Tensor::FromVector<float>({3e38f, 3e38f, -3e38f, 1e4f, 1e4f, 0}, {2, 3});
    const Tensor y = Tensor::Empty(x.shape());
    SoftmaxForward(SoftmaxKind::kPlain, x, 1, y);
    EXPECT_EQ(y.ToVector<float>(), (std::vector<float>{0.5, 0.5, 0, 0.5, 0.5, 0}));
    SoftmaxForward(SoftmaxKind::kLog, x, 1, y);
    EXPECT_FLOAT_EQ(y.ToVector<float>()[3], -std::log(2.0f));
    EXPECT_FLOAT_EQ(y.ToVector<float>()[5], -1e4f - std::log(2.0f));
  });
}

TEST(SoftmaxTest, InfinityAndNaNAsInPyTorch) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  ForEachIsa([&] {
    for (const SoftmaxKind kind : kKinds) {
      for (const int dim : {0, 1}) {
        const auto softmax = [&](std::vector<float> values) {
          const Tensor x = Tensor::FromVector(values, dim == 1 ? Shape{1, 3} : Shape{3, 1});
          const Tensor y = Tensor::Empty(x.shape());
          SoftmaxForward(kind, x, dim, y);
          return y.ToVector<float>();
        };
        EXPECT_EQ(softmax({-kInfinity, 1, -kInfinity})[1], kind == SoftmaxKind::kLog ? 0 : 1);
        for (const float value : softmax({-kInfinity, -kInfinity, -kInfinity})) {
          EXPECT_TRUE(std::isnan(value));
        }
        for (const float value : softmax({0, kNaN, 1})) EXPECT_TRUE(std::isnan(value));
        EXPECT_TRUE(std::isnan(softmax({0, kInfinity, 1})[1]));
      }
    }
  });
}

TEST(SoftmaxTest, ThreadsDoNotChangeBits) {
  const Tensor x = RandomTensor({30, 40, 50}, DType::kFloat32, 1);
  ForEachIsa([&] {
    for (const int dim : {0, 1, 2}) {
      const auto softmax = [&] {
        const Tensor y = Tensor::Empty(x.shape());
        SoftmaxForward(SoftmaxKind::kPlain, x, dim, y);
        return y;
      };
      ExpectSameBitsOnThreads(softmax);
      ExpectSameBitsOnThreads([&] {
        const Tensor dx = Tensor::Empty(x.shape());
        SoftmaxBackward(SoftmaxKind::kPlain, softmax(), x, dim, dx, false);
        return dx;
      });
    }
  });
}

}  // namespace
}  // namespace ops::cpu
