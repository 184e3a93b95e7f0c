#include "ddp/replicated/hooks/local_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/hooks/testing.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Tensor;
using testing::Each;
using testing::ElementsAre;

class LocalSgdTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LocalSgdTest, testing::Values(2, 3, 4));

TEST_P(LocalSgdTest, AddsUpAtFirstAndLeavesGradientsLocalThen) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto joined = rank.Join();
    CountingGroup group(*joined);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      const CommunicationHook hook = LocalSgd({.start_step = 2});
      for (int step = 0; step < 4; ++step) {
        group.Forget();
        for (int index = 0; index < 2; ++index) {
          GradientBucket bucket = MakeBucket({{5}}, dtype);
          bucket.index = index;
          bucket.num_buckets = 2;
          bucket.scale = 1.0 / rank.size();
          bucket.parts[0].tensor.Fill(12 * (rank.rank() + 1) * bucket.scale);
          hook(group, bucket)->Wait();
          const int sum = 12 * (rank.size() + 1) / 2, own = 12 * (rank.rank() + 1);
          EXPECT_THAT(bucket.parts[0].tensor.ToVector<double>(),
                      Each(testing::DoubleNear(step < 2 ? sum : own,
                                               dtype == DType::kBFloat16 ? 0.25 : 1e-5)));
          EXPECT_THAT(bucket.gradients.Slice(5, 8).ToVector<double>(), Each(0));  // a gap
        }
        EXPECT_EQ(group.calls().size(), step < 2 ? 2u : 0u);
      }
    }
  });
}

TEST(LocalSgd, ARankThatCountsForNothingKeepsZeros) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    GradientBucket bucket = MakeBucket({{5}});
    bucket.scale = 0;
    LocalSgd()(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(), Each(0));
  });
}

TEST_P(LocalSgdTest, AveragesWhatIsTrainedEveryPeriod) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    const Tensor trained = SetRequiresGrad(Tensor::Full({3}, 0));
    const Tensor frozen = Tensor::Full({2}, rank.rank());
    PeriodicAverager averager({{"trained", trained}, {"frozen", frozen}}, *group,
                              {.period = 3, .warm_up_steps = 2});
    std::vector<int> averaged_in;
    for (int step = 0; step < 9; ++step) {
      trained.Fill(2 * rank.rank());
      averager.Step();
      const float value = trained.data<float>()[2];
      if (value == rank.size() - 1) averaged_in.push_back(step);
    }
    if (2 * rank.rank() != rank.size() - 1) {  // else its own value is the average
      EXPECT_THAT(averaged_in, ElementsAre(2, 5, 8));
    }
    EXPECT_THAT(frozen.ToVector<float>(), Each(rank.rank()));
  });
}

TEST(PeriodicAverager, RefusesAPeriodOfZero) {
  RunRanks(1, [](TestRank& rank) {
    const auto group = rank.Join();
    EXPECT_THROW(PeriodicAverager({}, *group, {.period = 0}), std::invalid_argument);
  });
}

}  // namespace
}  // namespace ddp
