#include "ops/cpu/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

// The one rounding of a float64 sum to its dtype.
double RoundingOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 0x1p-24;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    default:
      return 0x1p-53;
  }
}

std::vector<double> ReferenceSums(const Tensor& x, const Shape& out) {
  std::vector<double> sums(out.num_elements());
  const std::vector<double> values = x.ToVector<double>();
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t rest = i, offset = 0, stride = 1;
    for (int d = 1; d <= x.shape().rank(); ++d) {
      const int64_t coordinate = rest % x.dim(-d);
      rest /= x.dim(-d);
      if (d > out.rank()) continue;
      if (out.dim(-d) != 1) offset += coordinate * stride;
      stride *= out.dim(-d);
    }
    sums[offset] += values[i];
  }
  return sums;
}

void ExpectSumsAreRight(const Tensor& x, const Shape& shape) {
  SCOPED_TRACE(x.Describe() + " to " + shape.ToString());
  const std::vector<double> expected = ReferenceSums(x, shape);
  constexpr double kSumming = 1e-12;  // of up to a million standard normal terms, in float64
  const double rounding = RoundingOf(x.dtype());
  const Tensor out = Misaligned(shape, x.dtype());
  const auto expect_near = [&](double times) {
    const std::vector<double> sums = out.ToVector<double>();
    for (size_t i = 0; i < sums.size(); ++i) {
      const double expected_sum = times * expected[i];
      EXPECT_NEAR(sums[i], expected_sum, 2 * rounding * std::abs(expected_sum) + kSumming) << i;
    }
  };
  SumTo(x, out);
  expect_near(1);
  SumTo(x, out, /*accumulate=*/true);
  expect_near(2);
}

TEST(SumToTest, AllElements) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : kLengths) ExpectSumsAreRight(RandomTensor({n}, dtype, n), {});
    }
    ExpectSumsAreRight(RandomTensor({700, 300}, DType::kFloat32, 1), {1, 1});
  });
}

TEST(SumToTest, RowsColumnsAndAnythingBetween) {
  const std::pair<Shape, Shape> kShapes[] = {
      {{10, 2}, {2}},
      {{64, 17}, {17}},
      {{64, 17}, {64, 1}},
      {{5, 1000}, {1000}},
      {{5, 1000}, {5, 1}},
      {{3, 4, 5}, {4, 1}},
      {{3, 4, 5}, {3, 1, 5}},
      {{3, 4, 5}, {3, 4, 5}},
      {{2, 3, 4, 5}, {3, 1, 5}},
      {{2, 3, 4, 5}, {2, 1, 4, 1}},
      {{2, 1, 3, 1, 2, 3}, {2, 1, 1, 1, 2, 1}},
      {{2, 600, 9}, {600, 1}},
      {{0, 4}, {4}},
      {{4, 0}, {4, 1}},
      {{4, 0}, {0}},
      {{0}, {}},
  };
  ForEachIsa([&] {
    for (const DType dtype : kFloatingDTypes) {
      for (const auto& [x, out] : kShapes) ExpectSumsAreRight(RandomTensor(x, dtype, 7), out);
    }
  });
}

TEST(SumToTest, ManySmallNumbersAreNotLost) {
  ForEachIsa([] {
    const Tensor x = Tensor::Full({3'000'000}, 0.1), sum = Tensor::Scalar(0);
    SumTo(x, sum);
    EXPECT_FLOAT_EQ(sum.Item(), 3e6f * 0.1f);
    // In float32 one after the other, 2^24 ones more than 2^24 would change nothing.
    const Tensor halves = Tensor::Full({4096, 16}, 1).To(DType::kFloat16);
    const Tensor columns = Tensor::Empty({16}, {.dtype = DType::kFloat16});
    SumTo(halves, columns);
    for (const float value : columns.ToVector<float>()) EXPECT_EQ(value, 4096);
  });
}

TEST(SumToTest, AnIntegerTensorIsRefused) {
  const Tensor x = Tensor::Zeros({3}, {.dtype = DType::kInt64});
  EXPECT_THROW(SumTo(x, Tensor::Scalar(0, {.dtype = DType::kInt64})), std::invalid_argument);
}

TEST(SumToTest, ThreadsAndInstructionSetsDoNotChangeBits) {
  const Tensor x = RandomTensor({700, 517}, DType::kFloat32, 1);
  for (const Shape& shape : {Shape{}, Shape{517}, Shape{700, 1}}) {
    std::string bits;
    ForEachIsa([&] {
      const auto sum = [&] {
        const Tensor out = Tensor::Empty(shape);
        SumTo(x, out);
        return out;
      };
      ExpectSameBitsOnThreads(sum);
      if (bits.empty()) bits = BytesOf(sum());
      EXPECT_TRUE(BytesOf(sum()) == bits);
    });
  }
}

TEST(SumOfSquaresTest, EveryDTypeAndLength) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : kLengths) {
        const Tensor x = RandomTensor({n}, dtype, n);
        double expected = 0;
        for (const double value : x.ToVector<double>()) expected += value * value;
        EXPECT_NEAR(SumOfSquares(x), expected, 1e-13 * expected);
      }
    }
  });
}

TEST(SumOfSquaresTest, LargeFloatsDoNotOverflow) {
  ForEachIsa([] { EXPECT_NEAR(SumOfSquares(Tensor::Full({100}, 1e30)), 1e62, 1e56); });
}

TEST(AllFiniteTest, FindsOneAmongMany) {
  constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()};
  ForEachIsa([&] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : kLengths) {
        const Tensor x = RandomTensor({n}, dtype, n);
        EXPECT_TRUE(AllFinite(x));
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          if (at < 0 || at >= n) continue;
          for (const double bad : kBad) {
            const Tensor y = x.Clone();
            y.Slice(at, at + 1).Fill(bad);
            EXPECT_FALSE(AllFinite(y)) << bad << " at " << at << " of " << n;
          }
        }
      }
    }
  });
}

TEST(AllFiniteTest, LargestAndSubnormalNumbersAreFinite) {
  ForEachIsa([] {
    EXPECT_TRUE(AllFinite(Tensor::Full({100}, std::numeric_limits<float>::max())));
    EXPECT_TRUE(AllFinite(Tensor::Full({100}, std::numeric_limits<float>::denorm_min())));
    ThreadPool pool(2);
    const ScopedThreadPool use(&pool);
    const Tensor x = Tensor::Zeros({1'000'000});
    EXPECT_TRUE(AllFinite(x));
    x.data<float>()[999'999] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(AllFinite(x));
  });
}

// Against the largest along `dim` and its index, looked for one number at a time.
void ExpectMaxIsRight(const Tensor& x, int dim) {
  SCOPED_TRACE(x.Describe() + " along " + std::to_string(dim));
  const int64_t extent = x.dim(dim);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= x.dim(i);
  for (int i = dim + 1; i < x.shape().rank(); ++i) inner *= x.dim(i);
  const Tensor values = Misaligned({outer, inner}, x.dtype());
  const Tensor indices = Misaligned({outer, inner}, DType::kInt64);
  Max(x, dim, values, indices);
  const auto all = x.ToVector<double>(), largest = values.ToVector<double>();
  for (int64_t i = 0; i < outer * inner; ++i) {
    const auto at = [&](int64_t k) { return all[(i / inner * extent + k) * inner + i % inner]; };
    int64_t best = 0;
    for (int64_t k = 1; k < extent; ++k) {
      if (at(k) > at(best) || (std::isnan(at(k)) && !std::isnan(at(best)))) best = k;
    }
    ASSERT_EQ(indices.data<int64_t>()[i], best);
    ASSERT_TRUE(largest[i] == at(best) || (std::isnan(largest[i]) && std::isnan(at(best))));
  }
}

// Few different values: some are equal.
Tensor FewValues(const Shape& shape, DType dtype) {
  const auto normal = RandomTensor(shape, DType::kFloat64, 1).ToVector<double>();
  std::vector<double> values;
  for (const double value : normal)
    values.push_back(std::min(std::floor(3 * std::abs(value)), 5.0));
  return Tensor::FromVector(values, shape).To(dtype);
}

TEST(MaxTest, EveryDTypeAndDimension) {
  ForEachIsa([] {
    for (const DType dtype : kAllDTypes) {
      for (const Shape& shape : {Shape{1}, Shape{5}, Shape{40}, Shape{1000}, Shape{7, 33},
                                 Shape{3, 5, 700}, Shape{0, 4}, Shape{4, 3, 0}}) {
        for (int dim = 0; dim < shape.rank(); ++dim) {
          if (shape.dim(dim) > 0) ExpectMaxIsRight(FewValues(shape, dtype), dim);
        }
      }
    }
  });
}

TEST(MaxTest, NanIsTheLargestAndTheFirstOneCounts) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : {4, 37, 64}) {
        auto values = RandomTensor({3, n}, DType::kFloat64, 1).ToVector<double>();
        values[1] = kInfinity;
        values[n + 3] = values[2 * n - 1] = kNaN;
        std::fill(values.begin() + 2 * n, values.end(), -kInfinity);
        const Tensor x = Tensor::FromVector(values, {3, n}).To(dtype);
        ExpectMaxIsRight(x, 0);
        ExpectMaxIsRight(x, 1);
      }
    }
  });
}

TEST(MaxTest, BackwardAddsToTheElementsFound) {
  for (const DType dtype : kFloatingDTypes) {
    const Tensor dx = Tensor::Full({2, 3, 2}, 1, {.dtype = dtype});
    const Tensor dy = Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2}).To(dtype);
    MaxBackward(dy, Tensor::FromVector<int64_t>({0, 2, 1, 1}, {2, 2}), 1, dx);
    EXPECT_EQ(dx.ToVector<double>(), (std::vector<double>{2, 1, 1, 1, 1, 3, 1, 1, 4, 5, 1, 1}));
  }
}

TEST(MaxTest, ThreadsDoNotChangeBits) {
  const Tensor x = RandomTensor({100, 50, 60}, DType::kFloat32, 1);
  for (const int dim : {0, 1, 2}) {
    const int64_t count = x.num_elements() / x.dim(dim);
    ExpectSameBitsOnThreads([&] {
      const Tensor values = Tensor::Empty({count});
      const Tensor indices = Tensor::Empty({count}, {.dtype = DType::kInt64});
      Max(x, dim, values, indices);
      return indices;
    });
  }
}

}  // namespace
}  // namespace ops::cpu
