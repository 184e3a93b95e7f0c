#include "ddp/replicated/hooks/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/hooks/testing.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Tensor;
using testing::ElementsAre;

GradientBucket BucketOf(const std::vector<float>& values) {
  const GradientBucket bucket =
      MakeBucket({{static_cast<int64_t>(values.size())}}, DType::kFloat32, /*gap=*/0);
  bucket.gradients.CopyFrom(Tensor::FromVector(values, bucket.gradients.shape()));
  return bucket;
}

class TopKTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TopKTest, testing::Values(1, 2, 3, 4));

TEST_P(TopKTest, AllOfThemAreTheExactSum) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    for (const auto& [dtype, error] :
         {std::pair{DType::kFloat32, 1e-6}, std::pair{DType::kBFloat16, 0x1p-7}}) {
      GradientBucket bucket = MakeBucket({{30, 41}, {5}, {}}, dtype);
      bucket.scale = 1.0 / rank.size();
      const std::vector<double> exact = SumOfParts(bucket, rank.size());
      FillParts(bucket, rank.rank());
      TopK(1)(*group, bucket)->Wait();
      EXPECT_LT(MaxError(bucket.gradients, exact), 4 * error);
      EXPECT_TRUE(RanksAgree(*group, bucket.gradients));
    }
  });
}

TEST(TopK, TakesTheLargestAndTheFirstAmongEquals) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const GradientBucket bucket =
        BucketOf(rank.rank() == 0 ? std::vector<float>{1, -5, 3, 3, 3, 0}
                                  : std::vector<float>{-2, 2, 2, -2, 2, 100});
    const CommunicationHook hook = TopK(0.4);  // 3 of 6
    hook(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(), ElementsAre(-2, -3, 3, 3, 0, 100));

    // What stayed behind comes with the next gradients.
    bucket.gradients.FillZero();
    hook(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(), ElementsAre(1, 0, 2, -2, 5, 0));
    bucket.gradients.FillZero();
    hook(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(), testing::Each(0));
  });
}

TEST_P(TopKTest, TheAverageOfManyStepsIsTheTrueOne) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    GradientBucket bucket = MakeBucket({{40, 5}, {11}});
    bucket.scale = 1.0 / rank.size();
    const std::vector<double> exact = SumOfParts(bucket, rank.size());
    const CommunicationHook hook = TopK(0.1);
    std::vector<double> total(exact.size());
    constexpr int kSteps = 500;
    for (int step = 0; step < kSteps; ++step) {
      FillParts(bucket, rank.rank());
      hook(*group, bucket)->Wait();
      const std::vector<double> sum = bucket.gradients.ToVector<double>();
      for (size_t i = 0; i < total.size(); ++i) total[i] += sum[i];
    }
    for (double& value : total) value /= kSteps;
    // What waits is at most about as large as what 1 / ratio steps bring.
    EXPECT_LT(MaxError(Tensor::FromVector(total, {static_cast<int64_t>(total.size())}), exact),
              4.0 * 10 / kSteps);
    EXPECT_TRUE(RanksAgree(*group, bucket.gradients));
  });
}

TEST(TopK, SendsPairsOfIndexAndValue) {
  RunRanks(3, [](TestRank& rank) {
    const auto joined = rank.Join();
    CountingGroup group(*joined);
    TopK(0.01)(group, MakeBucket({{997}}))->Wait();
    EXPECT_THAT(group.calls(), ElementsAre("all_gather int32[10]", "all_gather float32[10]"));
    EXPECT_EQ(group.bytes_sent(), 2 * 10 * 8);
    group.Forget();
    TopK(0.01)(group, MakeBucket({{997}}, DType::kBFloat16))->Wait();
    EXPECT_EQ(group.bytes_sent(), 2 * 10 * 6);
  });
}

TEST(TopK, WhatIsNotFiniteTravelsFirstAndIsForgotten) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const CommunicationHook hook = TopK(0.5);  // 2 of 4
    const GradientBucket bucket = BucketOf(
        rank.rank() == 1 ? std::vector<float>{1e38f, -kInfinity, 3, kNaN} : std::vector<float>(4));
    hook(*group, bucket)->Wait();
    const std::vector<float> sum = bucket.gradients.ToVector<float>();
    EXPECT_THAT(sum, ElementsAre(0, -kInfinity, 0, testing::IsNan()));

    bucket.gradients.FillZero();
    hook(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(), ElementsAre(1e38f, 0, 3, 0));
  });
}

TEST(TopK, RefusesWhatIsNoRatio) {
  for (const double ratio : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_THROW(TopK(ratio), std::invalid_argument) << ratio;
  }
}

}  // namespace
}  // namespace ddp
