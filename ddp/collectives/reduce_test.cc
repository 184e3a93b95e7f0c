#include "ddp/collectives/reduce.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "ops/cpu/isa.h"

namespace ddp {
namespace {

using ops::BFloat16;
using ops::DType;
using ops::Float16;
using testing::ElementsAre;

constexpr ReduceOp kAllOps[] = {ReduceOp::kSum,   ReduceOp::kAverage, ReduceOp::kProduct,
                                ReduceOp::kMin,   ReduceOp::kMax,     ReduceOp::kBitAnd,
                                ReduceOp::kBitOr, ReduceOp::kBitXor,  ReduceOp::kPremultipliedSum};

template <class T>
using Ranks = std::vector<std::vector<T>>;  // values by rank

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T>;

// What floating point is calculated in.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The reduction of one element, written as the header says it and without any kernel.

template <class C>
C FoldFloating(ReduceOp op, const std::vector<C>& values) {
  C result = values[0];
  for (size_t k = 1; k < values.size(); ++k) {
    const C x = values[k];
    switch (op) {
      case ReduceOp::kProduct:
        result *= x;
        break;
      case ReduceOp::kMin:
        if (!std::isnan(result) && (x < result || std::isnan(x))) result = x;
        break;
      case ReduceOp::kMax:
        if (!std::isnan(result) && (x > result || std::isnan(x))) result = x;
        break;
      default:
        result += x;
    }
  }
  return op == ReduceOp::kAverage ? result / static_cast<C>(values.size()) : result;
}

template <class T>
T ReduceFloating(ReduceOp op, const std::vector<T>& values) {
  std::vector<Compute<T>> exact(values.begin(), values.end());
  Compute<T> result = FoldFloating(op, exact);
  if (op == ReduceOp::kAverage && !std::isfinite(result)) {
    const std::vector<long double> wide(exact.begin(), exact.end());
    result = static_cast<Compute<T>>(FoldFloating(op, wide));
  }
  return T(result);
}

template <class T>
T ReduceInteger(ReduceOp op, const std::vector<T>& values) {
  __int128 result = values[0];
  for (size_t k = 1; k < values.size(); ++k) {
    const __int128 x = values[k];
    switch (op) {
      case ReduceOp::kProduct:
        result = static_cast<T>(static_cast<uint64_t>(result) * static_cast<uint64_t>(x));
        break;
      case ReduceOp::kMin:
        result = std::min(result, x);
        break;
      case ReduceOp::kMax:
        result = std::max(result, x);
        break;
      case ReduceOp::kBitAnd:
        result &= x;
        break;
      case ReduceOp::kBitOr:
        result |= x;
        break;
      case ReduceOp::kBitXor:
        result ^= x;
        break;
      default:
        result += x;
    }
  }
  if (op == ReduceOp::kAverage) result /= static_cast<int64_t>(values.size());
  return static_cast<T>(result);
}

template <class T>
std::vector<T> Reference(ReduceOp op, const Ranks<T>& ranks) {
  std::vector<T> result;
  for (size_t i = 0; i < ranks[0].size(); ++i) {
    std::vector<T> values;
    for (const auto& rank : ranks) values.push_back(rank[i]);
    if constexpr (kIsInteger<T>) {
      result.push_back(ReduceInteger(op, values));
    } else {
      result.push_back(ReduceFloating(op, values));
    }
  }
  return result;
}

// Integers of all sizes; numbers near 1, and now and then one that is out of the ordinary.
template <class T>
T RandomValue(std::mt19937_64& random) {
  if constexpr (kIsInteger<T>) {
    return static_cast<T>(static_cast<int64_t>(random()) >> (random() % 64));
  } else {
    using Limits = std::numeric_limits<Compute<T>>;
    constexpr Compute<T> kUnusual[] = {
        0,        -Compute<T>(0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
        60000,    -60000,         Limits::max() / 2,  -Limits::max() / 2,  Limits::denorm_min(),
        0x1.8p-24};
    if (random() % 32 == 0) return T(kUnusual[random() % std::size(kUnusual)]);
    return T(std::normal_distribution<Compute<T>>()(random));
  }
}

template <class T>
Ranks<T> RandomRanks(int num_ranks, int64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Ranks<T> ranks(num_ranks, std::vector<T>(size));
  for (auto& values : ranks) {
    for (T& value : values) value = RandomValue<T>(random);
  }
  return ranks;
}

template <class T>
bool IsNan(T x) {
  if constexpr (kIsInteger<T>) {
    return false;
  } else {
    return std::isnan(static_cast<Compute<T>>(x));
  }
}

// The same bits, where they aren't NaN.
template <class T>
void ExpectEqual(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (IsNan(actual[i]) && IsNan(expected[i])) continue;
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) == 0) continue;
    using Shown = std::conditional_t<kIsInteger<T>, T, Compute<T>>;
    FAIL() << fmt::format("element {} of {} is {}, expected {}", i, actual.size(),
                          static_cast<Shown>(actual[i]), static_cast<Shown>(expected[i]));
  }
}

template <class T>
std::vector<const void*> PointersTo(const Ranks<T>& ranks) {
  std::vector<const void*> pointers;
  for (const auto& values : ranks) pointers.push_back(values.data());
  return pointers;
}

template <class T>
std::vector<T> ReduceRanks(ReduceOp op, const Ranks<T>& ranks) {
  std::vector<T> output(ranks[0].size());
  void* const outputs[] = {output.data()};
  Reduce(op, ops::kDTypeOf<T>, PointersTo(ranks), outputs, std::ssize(output));
  return output;
}

// f.operator()<T>(op) for everything that is supported, with the kernels of every instruction set.
template <class F>
void ForEachReduction(F f) {
  for (const ops::cpu::Isa isa : ops::cpu::SupportedIsas()) {
    const ops::cpu::ScopedIsa use(isa);
    for (const DType dtype : ops::kAllDTypes) {
      for (const ReduceOp op : kAllOps) {
        if (!Supports(op, dtype)) continue;
        SCOPED_TRACE(fmt::format("{} of {}, {}", Name(op), ops::Name(dtype), ops::cpu::Name(isa)));
        ops::Dispatch(dtype, [&]<class T>() { f.template operator()<T>(op); });
      }
    }
  }
}

TEST(ReduceTest, SupportsWhatHasAMeaning) {
  for (const DType dtype : ops::kAllDTypes) {
    const bool floating = ops::IsFloating(dtype);
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
      EXPECT_TRUE(Supports(op, dtype));
    }
    for (const ReduceOp op : {ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
      EXPECT_EQ(Supports(op, dtype), !floating);
    }
    EXPECT_EQ(Supports(ReduceOp::kPremultipliedSum, dtype), floating);
  }
  EXPECT_THROW(ReduceRanks<float>(ReduceOp::kBitOr, {{1}, {2}}), std::invalid_argument);
}

TEST(ReduceTest, EqualsTheReference) {
  ForEachReduction([]<class T>(ReduceOp op) {
    for (const int64_t size : {0, 1, 3, 17, 1000, 8192 + 3}) {
      for (const int num_ranks : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(fmt::format("{} ranks", num_ranks));
        const auto ranks = RandomRanks<T>(num_ranks, size, 100 * size + num_ranks);
        ExpectEqual(ReduceRanks(op, ranks), Reference(op, ranks));
      }
    }
  });
}

TEST(ReduceTest, EveryInputMayBeAnOutput) {
  ForEachReduction([]<class T>(ReduceOp op) {
    for (const int num_ranks : {2, 3, 5}) {
      auto ranks = RandomRanks<T>(num_ranks, 5000, num_ranks);
      const auto expected = Reference(op, ranks);
      std::vector<void*> outputs;
      for (auto& values : ranks) outputs.push_back(values.data());
      Reduce(op, ops::kDTypeOf<T>, PointersTo(ranks), outputs, 5000);
      for (const auto& values : ranks) ExpectEqual(values, expected);
    }
  });
}

TEST(ReduceTest, OneInputMayBeTheOutput) {
  ForEachReduction([]<class T>(ReduceOp op) {
    for (int target = 0; target < 4; ++target) {
      auto ranks = RandomRanks<T>(4, 2100, target);
      const auto expected = Reference(op, ranks);
      void* const outputs[] = {ranks[target].data()};
      Reduce(op, ops::kDTypeOf<T>, PointersTo(ranks), outputs, 2100);
      ExpectEqual(ranks[target], expected);
    }
  });
}

TEST(ReduceTest, AnyCutGivesTheSameBits) {
  ForEachReduction([]<class T>(ReduceOp op) {
    const auto ranks = RandomRanks<T>(3, 4099, 5);
    const std::vector<T> whole = ReduceRanks(op, ranks);
    std::vector<T> pieces(4099);
    for (int64_t begin = 0, size = 1; begin < 4099; begin += size, size = 3 * size + 1) {
      size = std::min<int64_t>(size, 4099 - begin);
      const void* const inputs[] = {&ranks[0][begin], &ranks[1][begin], &ranks[2][begin]};
      void* const outputs[] = {&pieces[begin]};
      Reduce(op, ops::kDTypeOf<T>, inputs, outputs, size);
    }
    ExpectEqual(pieces, whole);
  });
}

TEST(ReduceTest, LargeOutputsEqualTheReference) {
  constexpr int64_t kSize = (5 << 20) / sizeof(float) + 6;
  const auto ranks = RandomRanks<float>(2, kSize, 3);
  const void* const inputs[] = {ranks[0].data(), ranks[1].data()};
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
    const std::vector<float> expected = Reference(op, ranks);
    std::vector<float> aligned(kSize);
    std::vector<float> misaligned(kSize + 1);
    void* const outputs[] = {aligned.data(), misaligned.data() + 1};
    Reduce(op, DType::kFloat32, inputs, outputs, kSize);
    ExpectEqual(aligned, expected);
    ExpectEqual(std::vector(misaligned.begin() + 1, misaligned.end()), expected);
  }
}

// Accumulators of reductions over ranks of T.
class Accumulators {
 public:
  template <class T>
  Accumulators(ReduceOp op, const std::vector<T>& values)
      : bytes_(values.size() * AccumulatorsPerElement(op, ops::kDTypeOf<T>) *
               ops::SizeOf(AccumulatorOf(op, ops::kDTypeOf<T>))) {}
  void* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

TEST(ReduceTest, AccumulatingEqualsReducing) {
  ForEachReduction([]<class T>(ReduceOp op) {
    constexpr DType kDType = ops::kDTypeOf<T>;
    for (const int64_t size : {1, 17, 3000}) {
      auto ranks = RandomRanks<T>(6, size, size);
      if constexpr (!kIsInteger<T>) {  // no sum overflows
        for (auto& values : ranks) {
          for (T& value : values) {
            if (std::abs(Compute<T>(value)) > 1000) value = T(Compute<T>(3));
          }
        }
      }
      const std::vector<const void*> inputs = PointersTo(ranks);
      Accumulators sums(op, ranks[0]);
      Accumulators others(op, ranks[0]);
      Accumulate(op, kDType, std::span(inputs).first(2), sums.data(), false, size);
      Accumulate(op, kDType, std::span(inputs).subspan(2, 3), sums.data(), true, size);
      Accumulate(op, kDType, std::span(inputs).last(1), others.data(), false, size);
      const bool is_sum = op == ReduceOp::kAverage || op == ReduceOp::kPremultipliedSum;
      const void* const parts[] = {sums.data(), others.data()};
      void* const total = sums.data();
      Reduce(is_sum ? ReduceOp::kSum : op, AccumulatorOf(op, kDType), parts, {&total, 1},
             size * AccumulatorsPerElement(op, kDType));
      std::vector<T> output(size);
      Finish(op, kDType, sums.data(), 6, output.data(), size);
      ExpectEqual(output, ReduceRanks(op, ranks));
    }
  });
}

TEST(ReduceTest, SumsInOrder) {
  // In any other order the sum would be 0 or 2.
  EXPECT_THAT(ReduceRanks<float>(ReduceOp::kSum, {{1e8f}, {1}, {-1e8f}, {1}}), ElementsAre(1));
  EXPECT_THAT(ReduceRanks<float>(ReduceOp::kSum, {{1e8f}, {-1e8f}, {1}, {1}}), ElementsAre(2));
  EXPECT_THAT(ReduceRanks<double>(ReduceOp::kSum, {{1e16}, {1}, {-1e16}, {1}}), ElementsAre(1));
}

template <class T>
float ReduceOne(ReduceOp op, std::initializer_list<float> values) {
  Ranks<T> ranks;
  for (const float value : values) ranks.push_back({T(value)});
  return static_cast<float>(ReduceRanks(op, ranks)[0]);
}

TEST(ReduceTest, HalfPrecisionIsRoundedOnce) {
  EXPECT_EQ(ReduceOne<BFloat16>(ReduceOp::kSum, {256, 1, 1}), 258);
  EXPECT_EQ(ReduceOne<Float16>(ReduceOp::kSum, {2048, 1, 1}), 2050);
  EXPECT_EQ(ReduceOne<Float16>(ReduceOp::kProduct, {256, 256, 0.5f}), 32768);
}

TEST(ReduceTest, AveragesOfFloatingPointDoNotOverflow) {
  EXPECT_EQ(ReduceOne<float>(ReduceOp::kAverage, {3e38f, 3e38f, 3e38f, 3e38f}), 3e38f);
  EXPECT_EQ(ReduceOne<float>(ReduceOp::kAverage, {-3e38f, -3e38f, -3e38f}), -3e38f);
  EXPECT_EQ(ReduceOne<float>(ReduceOp::kAverage, {3e38f, 3e38f, -3e38f, -3e38f}), 0);
  EXPECT_EQ(ReduceOne<BFloat16>(ReduceOp::kAverage, {0x1p127f, 0x1p127f, 0x1p127f}), 0x1p127f);
  EXPECT_EQ(ReduceOne<Float16>(ReduceOp::kAverage, {40000, 40000, 40000, 40000}), 40000);
  EXPECT_THAT(ReduceRanks<double>(ReduceOp::kAverage, {{1.5e308}, {1.5e308}, {1.5e308}}),
              ElementsAre(1.5e308));
}

TEST(ReduceTest, InfinitiesStayWhatTheyAre) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
    EXPECT_EQ(ReduceOne<float>(op, {1, infinity, 2}), infinity);
    EXPECT_TRUE(std::isnan(ReduceOne<float>(op, {infinity, 1, -infinity})));
  }
  EXPECT_EQ(ReduceOne<float>(ReduceOp::kSum, {3e38f, 3e38f}), infinity);
  EXPECT_EQ(ReduceOne<float>(ReduceOp::kMin, {1, -infinity}), -infinity);
}

template <class T>
void ExpectNanStays() {
  const T nan(std::numeric_limits<Compute<T>>::quiet_NaN());
  const T one(1);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin,
                            ReduceOp::kMax, ReduceOp::kPremultipliedSum}) {
    const Ranks<T> ranks = {{nan, one, one}, {one, nan, one}, {one, one, nan}};
    for (const T value : ReduceRanks(op, ranks)) EXPECT_TRUE(IsNan(value)) << Name(op);
  }
}

TEST(ReduceTest, NanStays) {
  ExpectNanStays<float>();
  ExpectNanStays<double>();
  ExpectNanStays<BFloat16>();
  ExpectNanStays<Float16>();
}

template <class T>
void ExpectExactAveragesOfLimits() {
  constexpr T kSmallest = std::numeric_limits<T>::min();
  constexpr T kLargest = std::numeric_limits<T>::max();
  for (const int num_ranks : {2, 3, 7, 8}) {
    Ranks<T> ranks(num_ranks, {kSmallest, kLargest, kLargest});
    ranks.back().back() = kLargest - 1;  // the average is a little below kLargest
    EXPECT_THAT(ReduceRanks(ReduceOp::kAverage, ranks),
                ElementsAre(kSmallest, kLargest, kLargest - 1));
  }
}

TEST(ReduceTest, AveragesOfIntegersTruncateAndDoNotOverflow) {
  ExpectExactAveragesOfLimits<int64_t>();
  ExpectExactAveragesOfLimits<int32_t>();
  ExpectExactAveragesOfLimits<uint8_t>();
  EXPECT_THAT(ReduceRanks<int32_t>(ReduceOp::kAverage, {{1, -1, 7}, {2, -2, 8}}),
              ElementsAre(1, -1, 7));
  EXPECT_THAT(ReduceRanks<int64_t>(ReduceOp::kAverage, {{1, -1, 7}, {2, -2, 8}}),
              ElementsAre(1, -1, 7));
}

TEST(ReduceTest, SumsAndProductsOfIntegersWrap) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ReduceRanks<uint8_t>(ReduceOp::kSum, {{200}, {100}}), ElementsAre(44));
  EXPECT_THAT(ReduceRanks<int64_t>(ReduceOp::kSum, {{kLargest}, {1}}),
              ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(ReduceRanks<int32_t>(ReduceOp::kProduct, {{65536}, {65537}}), ElementsAre(65536));
}

TEST(ReduceTest, MultipliesByAFactor) {
  const std::vector<float> input = {1e30f, 3, -0.f, std::nanf("")};
  std::vector<float> output(4);
  Multiply(DType::kFloat32, 1e-50, input.data(), output.data(), 4);
  EXPECT_EQ(output[0], static_cast<float>(double{1e30f} * 1e-50));
  EXPECT_TRUE(std::signbit(output[2]));
  EXPECT_TRUE(std::isnan(output[3]));

  std::vector<BFloat16> halves(1000, BFloat16(3));
  Multiply(DType::kBFloat16, 1.0 / 3, halves.data(), halves.data(), 1000);
  for (const BFloat16 value : halves) EXPECT_EQ(static_cast<float>(value), 1);

  std::vector<int32_t> integers = {1};
  EXPECT_THROW(Multiply(DType::kInt32, 2, integers.data(), integers.data(), 1),
               std::invalid_argument);
}

}  // namespace
}  // namespace ddp
