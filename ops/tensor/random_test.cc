#include "ops/tensor/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The known answers of the authors' implementation (Random123, kat_vectors).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_THAT(Philox(0, 0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox(~0ull, ~0ull, ~0ull),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(GeneratorTest, WordsComeFromPhiloxInOrder) {
  Generator generator(5, 9);
  for (uint64_t position : {0, 1, 2}) {
    for (uint32_t word : Philox(5, 9, position)) EXPECT_EQ(generator.NextUint32(), word);
  }
}

TEST(GeneratorTest, GoesOnFromItsState) {
  for (int words = 0; words < 9; ++words) {
    for (const bool has_spare : {false, true}) {
      Generator generator(5, ~0ull);
      for (int i = 0; i < words; ++i) generator.NextUint32();
      if (has_spare) generator.Normal();
      Generator other = Generator::FromState(generator.State());
      for (int i = 0; i < 5; ++i) EXPECT_EQ(other.Normal(), generator.Normal());
      EXPECT_EQ(other.NextUint32(), generator.NextUint32());
    }
  }
}

TEST(GeneratorTest, RefusesWhatIsNoState) {
  EXPECT_THROW(Generator::FromState({}), std::invalid_argument);
  EXPECT_THROW(Generator::FromState(Tensor::Zeros({6})), std::invalid_argument);
  const Tensor state = Generator(1).State();
  state.data<int64_t>()[3] = 5;
  EXPECT_THAT([&] { Generator::FromState(state); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("5 words of block 0")));
}

TEST(GeneratorTest, SeedAndStreamDecide) {
  const auto draw = [](uint64_t seed, uint64_t stream) {
    Generator generator(seed, stream);
    return Tensor::Randn({100}, generator).ToVector<float>();
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(2, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
}

TEST(GeneratorTest, EachThreadHasOne) {
  Generator::ForThisThread() = Generator(3);
  const uint32_t first = Generator::ForThisThread().NextUint32();
  uint32_t of_other_thread = 0;
  std::thread([&] {
    Generator::ForThisThread() = Generator(3);
    of_other_thread = Generator::ForThisThread().NextUint32();
  }).join();
  EXPECT_EQ(of_other_thread, first);
  EXPECT_NE(Generator::ForThisThread().NextUint32(), first);
}

// The largest distance between the distribution of `values` and `cdf` (Kolmogorov and Smirnov).
template <class Cdf>
double KsDistance(std::vector<double> values, Cdf cdf) {
  std::ranges::sort(values);
  const double n = static_cast<double>(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]);
    distance = std::max({distance, expected - static_cast<double>(i) / n,
                         static_cast<double>(i + 1) / n - expected});
  }
  return distance;
}

constexpr int kDraws = 100000;
// Exceeded by one seed in a thousand.
const double kKsLimit = 1.95 / std::sqrt(kDraws);

TEST(GeneratorTest, UniformIsUniform) {
  Generator generator(1);
  const auto values =
      Tensor::Rand({kDraws}, generator, {.dtype = DType::kFloat64}).ToVector<double>();
  EXPECT_LT(KsDistance(values, [](double x) { return x; }), kKsLimit);
  EXPECT_GE(*std::ranges::min_element(values), 0);
  EXPECT_LT(*std::ranges::max_element(values), 1);
}

TEST(GeneratorTest, NormalIsNormal) {
  Generator generator(1);
  const auto values =
      Tensor::Randn({kDraws}, generator, {.dtype = DType::kFloat64}).ToVector<double>();
  const auto cdf = [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; };
  EXPECT_LT(KsDistance(values, cdf), kKsLimit);
}

// Rounding to few bits must not give 1: in bfloat16, every 500th draw would.
TEST(GeneratorTest, UniformStaysBelowOneInEveryDType) {
  Generator generator(1);
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype)) continue;
    const auto values = Tensor::Rand({kDraws}, generator, {.dtype = dtype}).ToVector<double>();
    EXPECT_LT(*std::ranges::max_element(values), 1) << Name(dtype);
    EXPECT_GT(*std::ranges::max_element(values), 0.99) << Name(dtype);
    EXPECT_GE(*std::ranges::min_element(values), 0) << Name(dtype);
  }
}

TEST(GeneratorTest, FillsBetweenBounds) {
  Generator generator(1);
  const Tensor x = Tensor::Empty({kDraws}, {.dtype = DType::kFloat64});
  generator.FillUniform(x, -3, 5);
  EXPECT_LT(KsDistance(x.ToVector<double>(), [](double v) { return (v + 3) / 8; }), kKsLimit);
  generator.FillNormal(x, 2, 0.5);
  const auto cdf = [](double v) { return std::erfc(-(v - 2) / 0.5 / std::numbers::sqrt2) / 2; };
  EXPECT_LT(KsDistance(x.ToVector<double>(), cdf), kKsLimit);
}

TEST(GeneratorTest, IntegersCantBeFilled) {
  Generator generator(1);
  EXPECT_THAT([&] { Tensor::Rand({3}, generator, {.dtype = DType::kInt64}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("int64[3]")));
}

TEST(GeneratorTest, BelowIsUniformAndBelow) {
  Generator generator(1);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts.at(generator.Below(7));
  double chi_square = 0;
  for (int count : counts) chi_square += (count - 10000.0) * (count - 10000.0) / 10000;
  EXPECT_LT(chi_square, 22.5);  // 6 degrees of freedom: exceeded by one seed in a thousand
  for (int i = 0; i < 100; ++i) EXPECT_EQ(generator.Below(1), 0u);
  const uint64_t large = (1ull << 63) + 1;
  for (int i = 0; i < 100; ++i) EXPECT_LT(generator.Below(large), large);
}

TEST(GeneratorTest, PermutationHasEachOnceInAnyOrder) {
  Generator generator(1);
  std::vector<int64_t> order = generator.Permutation(1000);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  std::ranges::sort(order);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  EXPECT_TRUE(generator.Permutation(0).empty());

  std::vector<int> seen(6);
  for (int i = 0; i < 6000; ++i) {
    const auto p = generator.Permutation(3);
    ++seen[p[0] * 2 + (p[1] > p[2])];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 120);
}

}  // namespace
}  // namespace ops
