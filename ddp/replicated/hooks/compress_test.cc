#include "ddp/replicated/hooks/compress.h"

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
using testing::HasSubstr;

class CompressTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CompressTest, testing::Values(2, 3, 4));

TEST_P(CompressTest, IsTheSumWithinARoundingOfEachStep) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    const GradientBucket bucket = [&] {
      GradientBucket made = MakeBucket({{7, 9}, {5}, {}});
      made.scale = 1.0 / rank.size();
      return made;
    }();
    const std::vector<double> exact = SumOfParts(bucket, rank.size());
    for (const auto& [dtype, epsilon] :
         {std::pair{DType::kFloat16, 0x1p-11}, std::pair{DType::kBFloat16, 0x1p-8}}) {
      FillParts(bucket, rank.rank());
      CompressTo(dtype)(*group, bucket)->Wait();
      EXPECT_LT(MaxError(bucket.gradients, exact), 2 * epsilon * 4);  // normal numbers are below 4
      EXPECT_GT(MaxError(bucket.gradients, exact), 0);
      EXPECT_TRUE(RanksAgree(*group, bucket.gradients));
      EXPECT_EQ(bucket.gradients.data<float>()[7 * 9], 0);  // a gap
    }
  });
}

TEST(Compress, ScalingFirstKeepsAFloat16SumFinite) {
  RunRanks(4, [](TestRank& rank) {
    const auto group = rank.Join();
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      GradientBucket bucket = MakeBucket({{100}});
      bucket.scale = 0.25;
      bucket.gradients.Fill(40000 * bucket.scale);
      CompressTo(dtype)(*group, bucket)->Wait();
      for (const float value : bucket.gradients.elements<float>()) {
        EXPECT_NEAR(value, 40000, dtype == DType::kFloat16 ? 16 : 128);
      }
    }
  });
}

TEST(Compress, HalvesTheBytes) {
  RunRanks(2, [](TestRank& rank) {
    const auto joined = rank.Join();
    CountingGroup group(*joined);
    AllReduceGradients(group, MakeBucket({{97}}))->Wait();
    CompressTo(DType::kFloat16)(group, MakeBucket({{97}}))->Wait();
    CompressTo(DType::kFloat16)(group, MakeBucket({{97}}, DType::kBFloat16))->Wait();
    EXPECT_THAT(group.calls(), ElementsAre("all_reduce float32[100]", "all_reduce float16[100]",
                                           "all_reduce bfloat16[100]"));
    EXPECT_EQ(group.bytes_sent(), 400 + 200 + 200);
  });
}

TEST(Compress, InnerHooksSeeThePartsWhereTheyAre) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const GradientBucket bucket = MakeBucket({{2, 3}, {4}});
    const auto inner = [](ProcessGroup&, const GradientBucket& small) {
      EXPECT_EQ(small.parts.at(0).tensor.Describe(), "float16[2, 3]");
      EXPECT_EQ(small.parts.at(1).tensor.Describe(), "float16[4]");
      EXPECT_EQ(small.parts.at(1).name, "part1");
      small.parts[1].tensor.Fill(5);
      return DoneWork();
    };
    CompressTo(DType::kFloat16, inner)(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(),
                ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 0, 0, 0));
  });
}

TEST(Compress, WhatIsNotFiniteStaysSo) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const GradientBucket bucket = MakeBucket({{3}});
    float* const values = bucket.gradients.data<float>();
    if (rank.rank() == 1) {
      values[0] = std::numeric_limits<float>::quiet_NaN();
      values[1] = 1e6f;  // beyond float16
    }
    CompressTo(DType::kFloat16)(*group, bucket)->Wait();
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_TRUE(std::isinf(values[1]));
    EXPECT_EQ(values[2], 0);
  });
}

TEST(Compress, RefusesOtherDTypes) {
  EXPECT_THROW(CompressTo(DType::kFloat32), std::invalid_argument);
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    try {
      CompressTo(DType::kFloat16)(*group, MakeBucket({{3}}, DType::kInt64));
      ADD_FAILURE() << "int64 was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("hook float16"));
      EXPECT_THAT(error.what(), HasSubstr("got int64[6]"));
    }
  });
}

}  // namespace
}  // namespace ddp
