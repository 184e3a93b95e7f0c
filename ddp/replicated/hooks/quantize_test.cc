#include "ddp/replicated/hooks/quantize.h"

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
using testing::ElementsAre;

// Normal numbers are below 4.5: half a scale of the gradients, half a scale of their sum.
constexpr double kMaxError = (4.5 + 4.5) / 127 / 2;

class QuantizeTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, QuantizeTest, testing::Values(1, 2, 3, 4));

TEST_P(QuantizeTest, IsTheSumWithinHalfAScaleOfEachRounding) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      GradientBucket bucket = MakeBucket({{30, 41}, {5}, {}}, dtype);
      bucket.scale = 1.0 / rank.size();
      const std::vector<double> exact = SumOfParts(bucket, rank.size());
      FillParts(bucket, rank.rank());
      QuantizeTo8Bits()(*group, bucket)->Wait();
      EXPECT_LT(MaxError(bucket.gradients, exact), kMaxError);
      EXPECT_TRUE(RanksAgree(*group, bucket.gradients));
      EXPECT_EQ(bucket.gradients.Slice(30 * 41, 30 * 41 + 1).Item(), 0);  // a gap
    }
  });
}

TEST_P(QuantizeTest, NothingIsLostOverManySteps) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    GradientBucket bucket = MakeBucket({{300}, {31, 7}});
    bucket.scale = 1.0 / rank.size();
    const CommunicationHook hook = QuantizeTo8Bits();
    std::vector<double> lost(bucket.gradients.num_elements());
    for (int step = 0; step < 40; ++step) {
      const std::vector<double> exact = SumOfParts(bucket, rank.size(), step);
      FillParts(bucket, rank.rank(), step);
      hook(*group, bucket)->Wait();
      const std::vector<double> sum = bucket.gradients.ToVector<double>();
      for (size_t i = 0; i < lost.size(); ++i) lost[i] += exact[i] - sum[i];
    }
    EXPECT_LT(MaxAbs(lost), kMaxError);  // of the sum of all steps as of one
  });
}

TEST_P(QuantizeTest, SmallBucketsAndEmptyPieces) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    for (const int64_t n : {0, 1, 256, 257, 600}) {
      GradientBucket bucket = MakeBucket({{n}}, DType::kFloat32, /*gap=*/0);
      bucket.gradients.Fill(2);
      QuantizeTo8Bits()(*group, bucket)->Wait();
      EXPECT_THAT(bucket.gradients.ToVector<float>(),
                  testing::Each(testing::FloatEq(2.0f * rank.size())));
    }
  });
}

TEST(Quantize, SendsAQuarterOfTheBytes) {
  RunRanks(4, [](TestRank& rank) {
    const auto joined = rank.Join();
    CountingGroup group(*joined);
    const int64_t n = 4 * 10 * 256;
    const GradientBucket bucket = MakeBucket({{n}}, DType::kFloat32, /*gap=*/0);
    QuantizeTo8Bits()(group, bucket)->Wait();
    EXPECT_THAT(group.calls(), ElementsAre("all_to_all uint8[10400]", "all_gather uint8[2600]"));
    EXPECT_EQ(group.bytes_sent(), 2 * 3 / 4.0 * (n + 4 * n / 256));
  });
}

TEST(Quantize, ANewPlanForgetsWhatWasLost) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const CommunicationHook hook = QuantizeTo8Bits();
    GradientBucket bucket = MakeBucket({{300}});
    FillParts(bucket, rank.rank());
    hook(*group, bucket)->Wait();
    bucket.gradients.FillZero();
    bucket.plan = 1;
    hook(*group, bucket)->Wait();
    EXPECT_EQ(MaxError(bucket.gradients, std::vector<double>(303)), 0);

    GradientBucket other = MakeBucket({{5}});
    other.plan = 1;
    EXPECT_THROW(hook(*group, other), std::logic_error);
  });
}

TEST(Quantize, WhatIsNotFiniteIsNaNOnAllRanksInThatStepOnly) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const CommunicationHook hook = QuantizeTo8Bits();
    const GradientBucket bucket = MakeBucket({{600}});
    float* const values = bucket.gradients.data<float>();
    for (const float wrong :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      bucket.gradients.Fill(1);
      if (rank.rank() == 1) values[5] = wrong;
      if (rank.rank() == 0) values[300] = wrong;
      hook(*group, bucket)->Wait();
      for (int i = 0; i < 600; ++i) {
        if (i == 5 || i == 300) {
          EXPECT_TRUE(std::isnan(values[i])) << i;
        } else {
          EXPECT_FLOAT_EQ(values[i], 2) << i;
        }
      }
    }
    bucket.gradients.Fill(1);
    hook(*group, bucket)->Wait();
    for (int i = 0; i < 600; ++i) EXPECT_FLOAT_EQ(values[i], 2) << i;
  });
}

TEST(Quantize, TheExtremesOfFloat32) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    for (const float extreme : {1e-40f, 1e-45f, 3e38f}) {
      const GradientBucket bucket = MakeBucket({{2}}, DType::kFloat32, 0);
      float* const values = bucket.gradients.data<float>();
      if (rank.rank() == 0) values[0] = extreme;
      QuantizeTo8Bits()(*group, bucket)->Wait();
      EXPECT_NEAR(values[0], extreme, extreme / 100 + 1e-43);
      EXPECT_EQ(values[1], 0);
    }
  });
}

}  // namespace
}  // namespace ddp
