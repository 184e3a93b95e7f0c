#include "ops/cpu/elementwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "ops/cpu/kernel_testing.h"
#include "ops/cpu/rearrange.h"

namespace ops::cpu {
namespace {

constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kSubtract, BinaryOp::kMultiply,
                             BinaryOp::kDivide};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class C>
C Apply(BinaryOp op, C a, C b) {
  switch (op) {
    case BinaryOp::kAdd:
      return static_cast<C>(a + b);
    case BinaryOp::kSubtract:
      return static_cast<C>(a - b);
    case BinaryOp::kMultiply:
      return static_cast<C>(a * b);
    case BinaryOp::kDivide:
      return static_cast<C>(a / b);
  }
  return a;
}

// One element, with the conversions of ops/tensor.
template <class T>
T ReferenceOf(BinaryOp op, T a, T b) {
  if constexpr (std::is_class_v<T>) {
    return T(Apply(op, static_cast<float>(a), static_cast<float>(b)));
  } else {
    return Apply(op, a, b);
  }
}

// Where an operand's element for the output's element `index` is, by the definition.
int64_t OffsetIn(const Shape& operand, const Shape& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = 1; i <= operand.rank(); ++i) {
    const int64_t coordinate = index % out.dim(-i);
    index /= out.dim(-i);
    if (operand.dim(-i) != 1) offset += coordinate * stride;
    stride *= operand.dim(-i);
  }
  return offset;
}

void ExpectBinaryIsRight(BinaryOp op, const Tensor& a, const Tensor& b) {
  const Shape shape = BroadcastShapes("test", a.shape(), b.shape());
  Dispatch(a.dtype(), [&]<class T>() {
    const Tensor expected = Tensor::Empty(shape, {.dtype = a.dtype()});
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      expected.data<T>()[i] = ReferenceOf(op, a.data<T>()[OffsetIn(a.shape(), shape, i)],
                                          b.data<T>()[OffsetIn(b.shape(), shape, i)]);
    }
    const Tensor out = Misaligned(shape, a.dtype());
    Binary(op, a, b, out);
    EXPECT_TRUE(BytesOf(out) == BytesOf(expected))
        << a.Describe() << " op " << static_cast<int>(op) << " " << b.Describe();
  });
}

Tensor NonZero(const Shape& shape, DType dtype, uint64_t seed) {
  const Tensor tensor = RandomTensor(shape, dtype, seed, 20);
  Dispatch(dtype, [&]<class T>() {
    for (T& x : tensor.elements<T>()) {
      if constexpr (std::is_integral_v<T>) x = x == 0 ? 3 : x;
    }
  });
  return tensor;
}

TEST(BinaryTest, EveryOpDTypeAndLength) {
  ForEachIsa([] {
    for (const DType dtype : kAllDTypes) {
      for (const int64_t n : kLengths) {
        const Tensor a = NonZero({n}, dtype, 1), b = NonZero({n}, dtype, 2);
        const Tensor scalar = NonZero({}, dtype, 3);
        for (const BinaryOp op : kOps) {
          ExpectBinaryIsRight(op, a, b);
          ExpectBinaryIsRight(op, a, scalar);
          ExpectBinaryIsRight(op, scalar, b);
        }
      }
    }
  });
}

TEST(BinaryTest, Broadcasts) {
  const std::pair<Shape, Shape> kShapes[] = {
      {{4, 17}, {17}},        {{17}, {4, 17}},
      {{4, 17}, {4, 1}},      {{4, 1}, {17}},
      {{3, 1, 5}, {1, 4, 1}}, {{2, 3, 4, 5}, {3, 1, 5}},
      {{1}, {1, 1, 1}},       {{2, 3, 17}, {2, 1, 17}},
      {{0, 3}, {3}},          {{1, 3}, {0, 1}},
      {{1, 5}, {5}},          {{2, 1, 3, 1, 5, 1}, {4, 1, 2, 1, 3}},
  };
  ForEachIsa([&] {
    for (const auto& [a, b] : kShapes) {
      for (const BinaryOp op : kOps) {
        ExpectBinaryIsRight(op, NonZero(a, DType::kFloat32, 1), NonZero(b, DType::kFloat32, 2));
        ExpectBinaryIsRight(op, NonZero(a, DType::kInt32, 1), NonZero(b, DType::kInt32, 2));
      }
    }
  });
}

TEST(BinaryTest, TheOutputMayBeAnInput) {
  ForEachIsa([] {
    const Tensor x = RandomTensor({1000}, DType::kFloat32, 1);
    const Tensor expected = Tensor::Empty({1000});
    Binary(BinaryOp::kMultiply, x, x, expected);
    const Tensor in_place = x.Clone();
    Binary(BinaryOp::kMultiply, in_place, in_place, in_place);
    EXPECT_EQ(BytesOf(in_place), BytesOf(expected));
  });
}

TEST(BinaryTest, NotFiniteAndSubnormalValuesFollowIeee) {
  const float kTiny = std::numeric_limits<float>::denorm_min();
  const float kHuge = std::numeric_limits<float>::max();
  const std::vector<float> a = {kNaN, kInfinity, kInfinity, 1, -1, 0, kTiny, kHuge, 1e-30f, 0};
  const std::vector<float> b = {1, kInfinity, -kInfinity, 0, 0, 0, 2, 2, 1e-15f, kNaN};
  ForEachIsa([&] {
    const auto apply = [&](BinaryOp op) {
      const Tensor out = Tensor::Empty({10});
      Binary(op, Tensor::FromVector(a, {10}), Tensor::FromVector(b, {10}), out);
      return out.ToVector<float>();
    };
    for (const BinaryOp op : kOps) {
      const std::vector<float> out = apply(op);
      for (int i = 0; i < 10; ++i) {
        const float expected = Apply(op, a[i], b[i]);
        EXPECT_TRUE(out[i] == expected || (std::isnan(out[i]) && std::isnan(expected))) << i;
      }
    }
    EXPECT_EQ(apply(BinaryOp::kDivide)[3], kInfinity);
    EXPECT_EQ(apply(BinaryOp::kDivide)[4], -kInfinity);
  });
}

TEST(BinaryTest, IntegersWrapAround) {
  const int32_t kMin = std::numeric_limits<int32_t>::min();
  const int32_t kMax = std::numeric_limits<int32_t>::max();
  const Tensor out = Tensor::Empty({2}, {.dtype = DType::kInt32});
  Binary(BinaryOp::kAdd, Tensor::FromVector<int32_t>({kMax, kMin}, {2}),
         Tensor::FromVector<int32_t>({1, -1}, {2}), out);
  EXPECT_EQ(out.ToVector<int32_t>(), (std::vector<int32_t>{kMin, kMax}));
  Binary(BinaryOp::kDivide, Tensor::FromVector<int32_t>({kMin, -7}, {2}),
         Tensor::FromVector<int32_t>({-1, 2}, {2}), out);
  EXPECT_EQ(out.ToVector<int32_t>(), (std::vector<int32_t>{kMin, -3}));
}

TEST(BinaryTest, IntegerDivisionByZeroNamesTheElement) {
  const Tensor a = Tensor::FromVector<int64_t>({1, 2, 3}, {3});
  const Tensor b = Tensor::FromVector<int64_t>({1, 2, 0}, {3});
  try {
    Binary(BinaryOp::kDivide, a, b, a);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("element 2 of the divisor int64[3] is 0"));
  }
  EXPECT_EQ(a.ToVector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
}

// Every 16-bit pattern is read and rounded as ops/tensor does it.
template <class T>
void ExpectAllPatternsPass() {
  std::vector<T> all(65536), expected(65536);
  for (int i = 0; i < 65536; ++i) {
    all[i].bits = static_cast<uint16_t>(i);
    expected[i] = T(static_cast<float>(all[i]) * 0.7f);
  }
  const Tensor out = Tensor::Empty({65536}, {.dtype = kDTypeOf<T>});
  Scale(0.7f, Tensor::FromVector(all, {65536}), out);
  for (int i = 0; i < 65536; ++i) ASSERT_EQ(out.data<T>()[i].bits, expected[i].bits) << i;
}

TEST(HalfPrecisionTest, EveryPatternIsReadAndRoundedLikeATensor) {
  ForEachIsa([] {
    ExpectAllPatternsPass<BFloat16>();
    ExpectAllPatternsPass<Float16>();
  });
}

TEST(HalfPrecisionTest, TooLargeBecomesInfinity) {
  ForEachIsa([] {
    const Tensor x = Tensor::FromVector<float>({65504, -65504}, {2}).To(DType::kFloat16);
    Scale(2, x, x);
    EXPECT_EQ(x.ToVector<float>(), (std::vector<float>{kInfinity, -kInfinity}));
  });
}

TEST(UnaryTest, ScaleAndAddScalar) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : kLengths) {
        const Tensor x = RandomTensor({n}, dtype, 1), y = RandomTensor({n}, dtype, 2);
        const std::vector<double> in = x.ToVector<double>(), before = y.ToVector<double>();
        const Tensor scaled = Misaligned({n}, dtype), shifted = Misaligned({n}, dtype);
        Scale(3, x, scaled);
        AddScalar(2, x, shifted);
        Scale(3, x, y, /*accumulate=*/true);
        const std::vector<double> times = scaled.ToVector<double>();
        const std::vector<double> plus = shifted.ToVector<double>();
        const std::vector<double> added = y.ToVector<double>();
        const double tolerance = dtype == DType::kFloat64   ? 1e-15
                                 : dtype == DType::kFloat32 ? 1e-6
                                 : dtype == DType::kFloat16 ? 1e-3
                                                            : 8e-3;
        for (int64_t i = 0; i < n; ++i) {
          const double size = 10 + 4 * std::abs(in[i]);
          EXPECT_NEAR(times[i], 3 * in[i], tolerance * size);
          EXPECT_NEAR(plus[i], in[i] + 2, tolerance * size);
          EXPECT_NEAR(added[i], before[i] + 3 * in[i], tolerance * size);
        }
      }
    }
  });
}

TEST(UnaryTest, IntegersAreRefused) {
  const Tensor x = Tensor::Zeros({3}, {.dtype = DType::kInt32});
  EXPECT_THROW(Scale(2, x, x), std::invalid_argument);
  EXPECT_THROW(AddScalar(2, x, x), std::invalid_argument);
}

TEST(ElementwiseTest, ThreadsDoNotChangeBits) {
  const Tensor a = RandomTensor({300, 517}, DType::kFloat32, 1);
  const Tensor row = RandomTensor({517}, DType::kFloat32, 2);
  const auto run = [&](auto f) {
    ExpectSameBitsOnThreads([&] {
      const Tensor out = a.Clone();
      f(out);
      return out;
    });
  };
  run([&](const Tensor& out) { Binary(BinaryOp::kDivide, a, a, out); });
  run([&](const Tensor& out) { Binary(BinaryOp::kAdd, a, row, out); });
  run([&](const Tensor& out) { Binary(BinaryOp::kAdd, a, Tensor::Scalar(2), out); });
  run([&](const Tensor& out) { Scale(3, a, out, true); });
  run([&](const Tensor& out) { AddScalar(3, a, out); });
}

bool Holds(Comparison comparison, double a, double b) {
  switch (comparison) {
    case Comparison::kEqual:
      return a == b;
    case Comparison::kNotEqual:
      return a != b;
    case Comparison::kLess:
      return a < b;
    case Comparison::kLessEqual:
      return a <= b;
  }
  return false;
}

constexpr Comparison kComparisons[] = {Comparison::kEqual, Comparison::kNotEqual, Comparison::kLess,
                                       Comparison::kLessEqual};

// 0 to 3, so that some are equal.
Tensor SomeEqual(const Shape& shape, DType dtype, uint64_t seed) {
  const Tensor drawn = RandomTensor(shape, DType::kFloat64, seed);
  const int64_t n = shape.num_elements();
  std::vector<double> values(n);
  const std::vector<double> normal = drawn.ToVector<double>();
  for (int64_t i = 0; i < n; ++i) values[i] = std::min(std::floor(2 * std::abs(normal[i])), 3.0);
  const Tensor tensor = Misaligned(shape, dtype);
  tensor.CopyFrom(Tensor::FromVector(values, shape));
  return tensor;
}

TEST(CompareTest, EveryDTypeAndBroadcasting) {
  const std::pair<Shape, Shape> kShapes[] = {
      {{3, 17}, {3, 17}}, {{3, 17}, {17}}, {{3, 1}, {3, 17}},      {{}, {3, 17}},
      {{3, 17}, {}},      {{0, 3}, {3}},   {{2, 1, 5}, {1, 3, 1}},
  };
  ForEachIsa([&] {
    for (const DType dtype : kAllDTypes) {
      for (const auto& [a_shape, b_shape] : kShapes) {
        const Tensor a = SomeEqual(a_shape, dtype, 1), b = SomeEqual(b_shape, dtype, 2);
        const Shape shape = BroadcastShapes("Compare", a_shape, b_shape);
        const Tensor out = Misaligned(shape, DType::kUInt8);
        const Tensor x = Tensor::Empty(shape, {.dtype = dtype}), y = x.Clone();
        Expand(a, x);
        Expand(b, y);
        const auto left = x.ToVector<double>(), right = y.ToVector<double>();
        for (const Comparison comparison : kComparisons) {
          Compare(comparison, a, b, out);
          for (int64_t i = 0; i < out.num_elements(); ++i) {
            ASSERT_EQ(out.data<uint8_t>()[i], Holds(comparison, left[i], right[i]));
          }
        }
      }
    }
  });
}

TEST(CompareTest, NanIsEqualToNothing) {
  const std::vector<float> a = {kNaN, kNaN, 1, kInfinity, -0.0f};
  const std::vector<float> b = {kNaN, 1, kNaN, kInfinity, 0.0f};
  ForEachIsa([&] {
    const Tensor out = Tensor::Empty({5}, {.dtype = DType::kUInt8});
    for (const Comparison comparison : kComparisons) {
      Compare(comparison, Tensor::FromVector(a, {5}), Tensor::FromVector(b, {5}), out);
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(out.data<uint8_t>()[i], Holds(comparison, a[i], b[i])) << i;
      }
    }
  });
}

void ExpectWhereIsRight(const Tensor& condition, const Tensor& a, const Tensor& b,
                        const Shape& shape) {
  const auto expanded = [&](const Tensor& tensor) {
    const Tensor all = Tensor::Empty(shape, tensor.options());
    Expand(tensor, all);
    return all.ToVector<double>();
  };
  const auto conditions = expanded(condition), chosen = expanded(a), other = expanded(b);
  const Tensor out = Misaligned(shape, a.dtype());
  Where(condition, a, b, out);
  const auto values = out.ToVector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], conditions[i] != 0 ? chosen[i] : other[i]) << i;
  }
}

TEST(WhereTest, ChoosesAndBroadcasts) {
  const Shape kFull{3, 17};
  ForEachIsa([&] {
    for (const DType dtype : kAllDTypes) {
      for (const Shape& condition : {kFull, Shape{17}, Shape{3, 1}, Shape{}}) {
        for (const Shape& a : {kFull, Shape{17}, Shape{}}) {
          for (const Shape& b : {kFull, Shape{3, 1}, Shape{}}) {
            ExpectWhereIsRight(SomeEqual(condition, DType::kUInt8, 1), SomeEqual(a, dtype, 2),
                               SomeEqual(b, dtype, 3), kFull);
          }
        }
      }
    }
  });
}

TEST(CastTest, AsTensorsConvert) {
  ForEachIsa([] {
    for (const DType to : kAllDTypes) {
      for (const DType from : kAllDTypes) {
        for (const int64_t n : kLengths) {
          const Tensor x = SomeEqual({n}, from, 1), out = Misaligned({n}, to);
          Cast(x, out);
          EXPECT_TRUE(BytesOf(out) == BytesOf(x.To(to)));
        }
      }
      if (!IsFloating(to)) continue;
      const Tensor x = RandomTensor({1000}, DType::kFloat64, 1, 1e4), out = Misaligned({1000}, to);
      Cast(x, out);
      EXPECT_TRUE(BytesOf(out) == BytesOf(x.To(to)));
    }
  });
}

TEST(WhereTest, ComparisonsSelectionsAndCastsDoNotDependOnThreads) {
  const Tensor x = RandomTensor({100'003}, DType::kFloat32, 1), zero = Tensor::Zeros({});
  ExpectSameBitsOnThreads([&] {
    const Tensor condition = Tensor::Empty(x.shape(), {.dtype = DType::kUInt8});
    const Tensor chosen = x.Clone();
    const Tensor cast = Tensor::Empty(x.shape(), {.dtype = DType::kBFloat16});
    Compare(Comparison::kLess, x, zero, condition);
    Where(condition, zero, x, chosen);
    Cast(chosen, cast);
    return cast;
  });
}

}  // namespace
}  // namespace ops::cpu
