#include "ddp/collectives/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ddp {
namespace {

using ops::BFloat16;
using ops::Float16;
using testing::Each;
using testing::ElementsAre;

template <class T>
std::vector<T> ReduceVectors(ReduceOp op, const std::vector<std::vector<T>>& ranks) {
  std::vector<const void*> inputs;
  for (const auto& values : ranks) inputs.push_back(values.data());
  std::vector<T> output(ranks[0].size());
  Reduce(op, ops::kDTypeOf<T>, inputs, output.data(), static_cast<int64_t>(output.size()));
  return output;
}

TEST(ReduceTest, SumsInOrder) {
  // In any other order the sum would be 0 or 2.
  EXPECT_THAT(ReduceVectors<float>(ReduceOp::kSum, {{1e8f}, {1}, {-1e8f}, {1}}), ElementsAre(1));
  EXPECT_THAT(ReduceVectors<float>(ReduceOp::kSum, {{1e8f}, {-1e8f}, {1}, {1}}), ElementsAre(2));
  EXPECT_THAT(ReduceVectors<double>(ReduceOp::kSum, {{1e16}, {1}, {-1e16}, {1}}), ElementsAre(1));
}

TEST(ReduceTest, HalfPrecisionIsRoundedOnce) {
  auto bf16 = [](float value) { return std::vector<BFloat16>{BFloat16(value)}; };
  const auto sum = ReduceVectors<BFloat16>(ReduceOp::kSum, {bf16(256), bf16(1), bf16(1)});
  EXPECT_EQ(static_cast<float>(sum[0]), 258);
  auto fp16 = [](float value) { return std::vector<Float16>{Float16(value)}; };
  const auto average = ReduceVectors<Float16>(ReduceOp::kAverage,
                                              {fp16(40000), fp16(40000), fp16(40000), fp16(40000)});
  EXPECT_EQ(static_cast<float>(average[0]), 40000);
}

TEST(ReduceTest, IntegerAveragesTruncateAndDoNotOverflow) {
  EXPECT_THAT(
      ReduceVectors<int32_t>(ReduceOp::kAverage, {{1, -1, 2'000'000'000}, {2, -2, 2'000'000'000}}),
      ElementsAre(1, -1, 2'000'000'000));
  EXPECT_THAT(ReduceVectors<uint8_t>(ReduceOp::kAverage, {{200, 1}, {250, 2}}),
              ElementsAre(225, 1));
  EXPECT_THAT(ReduceVectors<int64_t>(ReduceOp::kAverage, {{7}, {8}}), ElementsAre(7));
}

TEST(ReduceTest, IntegerSumsWrap) {
  EXPECT_THAT(ReduceVectors<uint8_t>(ReduceOp::kSum, {{200}, {100}}), ElementsAre(44));
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ReduceVectors<int64_t>(ReduceOp::kSum, {{kLargest}, {1}}),
              ElementsAre(std::numeric_limits<int64_t>::min()));
}

TEST(ReduceTest, MinAndMax) {
  EXPECT_THAT(ReduceVectors<int32_t>(ReduceOp::kMin, {{3, -5}, {2, 7}, {4, 0}}),
              ElementsAre(2, -5));
  EXPECT_THAT(ReduceVectors<double>(ReduceOp::kMax, {{3, -5}, {2, 7}, {4, 0}}), ElementsAre(4, 7));
}

TEST(ReduceTest, NanStays) {
  const float nan = std::nanf("");
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax}) {
    const auto result = ReduceVectors<float>(op, {{nan, 1, 1}, {1, nan, 1}, {1, 1, nan}});
    EXPECT_THAT(result, Each(testing::IsNan())) << Name(op);
  }
}

TEST(ReduceTest, OutputMayBeAnInput) {
  for (const int64_t size : {0, 1, 3, 17, 1000, 1024, 1025, 5000}) {
    for (int target = 0; target < 3; ++target) {
      std::vector<std::vector<float>> ranks(3);
      for (int rank = 0; rank < 3; ++rank) {
        for (int64_t i = 0; i < size; ++i) ranks[rank].push_back(std::sin(float(rank * 7919 + i)));
      }
      std::vector<float> expected(size);
      for (int64_t i = 0; i < size; ++i) expected[i] = (ranks[0][i] + ranks[1][i]) + ranks[2][i];
      const void* inputs[] = {ranks[0].data(), ranks[1].data(), ranks[2].data()};
      Reduce(ReduceOp::kSum, ops::DType::kFloat32, inputs, ranks[target].data(), size);
      EXPECT_EQ(ranks[target], expected) << "size " << size << ", target " << target;
    }
  }
}

TEST(ReduceTest, OneInputIsCopied) {
  EXPECT_THAT(ReduceVectors<float>(ReduceOp::kAverage, {{1, 2, 3}}), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace ddp
