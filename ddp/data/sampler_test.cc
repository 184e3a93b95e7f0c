#include "ddp/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace ddp {
namespace {

using Uneven = DistributedSamplerOptions::Uneven;

using Values = std::vector<int64_t>;

Values Iota(int64_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::vector<std::vector<int64_t>> AllRanks(int64_t size, int world,
                                           DistributedSamplerOptions options, int64_t epoch = 0) {
  std::vector<std::vector<int64_t>> ranks;
  options.world_size = world;
  for (options.rank = 0; options.rank < world; ++options.rank) {
    const DistributedSampler sampler(size, options);
    ranks.push_back(sampler.Indices(epoch));
    EXPECT_EQ(sampler.num_examples(), static_cast<int64_t>(ranks.back().size()));
  }
  return ranks;
}

std::vector<int64_t> Sorted(const std::vector<std::vector<int64_t>>& ranks) {
  std::vector<int64_t> all;
  for (const auto& rank : ranks) all.insert(all.end(), rank.begin(), rank.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::string MessageOf(int64_t size, const DistributedSamplerOptions& options) {
  try {
    DistributedSampler sampler(size, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(DistributedSamplerTest, WithoutShufflingDealsLikePyTorch) {
  const auto ranks = AllRanks(7, 3, {.shuffle = false});
  EXPECT_EQ(ranks[0], (std::vector<int64_t>{0, 3, 6}));
  EXPECT_EQ(ranks[1], (std::vector<int64_t>{1, 4, 0}));
  EXPECT_EQ(ranks[2], (std::vector<int64_t>{2, 5, 1}));
}

TEST(DistributedSamplerTest, EveryExampleExactlyOnce) {
  for (int64_t size : {1, 2, 3, 7, 100}) {
    for (int world : {1, 2, 3, 4, 8}) {
      const auto ranks = AllRanks(size, world, {.seed = 5, .uneven = Uneven::kExact});
      EXPECT_EQ(Sorted(ranks), Iota(size)) << size << " on " << world;
      for (const auto& rank : ranks) {
        EXPECT_LE(rank.size(), ranks[0].size());
        EXPECT_GE(rank.size() + 1, ranks[0].size());
      }
    }
  }
}

TEST(DistributedSamplerTest, PaddingRepeatsTheStartUntilRanksAreEven) {
  for (int64_t size : {1, 2, 3, 7, 100}) {
    for (int world : {1, 2, 3, 4, 8}) {
      const auto ranks = AllRanks(size, world, {.seed = 5});
      const auto whole = DistributedSampler(size, {.seed = 5}).Indices(0);
      const int64_t each = (size + world - 1) / world;
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < each * world; ++i) expected.push_back(whole[i % size]);
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(Sorted(ranks), expected) << size << " on " << world;
      for (const auto& rank : ranks) EXPECT_EQ(static_cast<int64_t>(rank.size()), each);
    }
  }
}

TEST(DistributedSamplerTest, DroppingLeavesOutTheLastOnes) {
  const auto ranks = AllRanks(11, 4, {.seed = 5, .uneven = Uneven::kDrop});
  auto whole = DistributedSampler(11, {.seed = 5}).Indices(0);
  whole.resize(8);
  std::sort(whole.begin(), whole.end());
  EXPECT_EQ(Sorted(ranks), whole);
  for (const auto& rank : ranks) EXPECT_EQ(rank.size(), 2u);
}

// So that training on W ranks sees the same global batches as on one.
TEST(DistributedSamplerTest, GlobalBatchesDoNotDependOnTheWorld) {
  const int64_t size = 96, global_batch = 24;
  const auto whole = DistributedSampler(size, {.seed = 3}).Indices(2);
  for (int world : {2, 3, 4}) {
    const auto ranks = AllRanks(size, world, {.seed = 3}, /*epoch=*/2);
    const int64_t batch = global_batch / world;
    for (int64_t b = 0; b < size / global_batch; ++b) {
      std::vector<int64_t> together;
      for (const auto& rank : ranks) {
        together.insert(together.end(), rank.begin() + b * batch, rank.begin() + (b + 1) * batch);
      }
      EXPECT_THAT(together,
                  testing::UnorderedElementsAreArray(whole.begin() + b * global_batch,
                                                     whole.begin() + (b + 1) * global_batch));
    }
  }
}

TEST(DistributedSamplerTest, OrdersDependOnSeedAndEpochAlone) {
  const DistributedSampler sampler(50, {.seed = 1});
  const auto first = sampler.Indices(0), second = sampler.Indices(1), third = sampler.Indices(2);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
  EXPECT_NE(first, Iota(50));
  EXPECT_EQ(first, DistributedSampler(50, {.seed = 1}).Indices(0));
  EXPECT_NE(first, DistributedSampler(50, {.seed = 2}).Indices(0));
}

// The ranks that went before had `consumed` examples; so each example of the epoch comes once.
TEST(DistributedSamplerTest, AnyNumberOfRanksGoesOnWithAnEpoch) {
  const int64_t size = 101;
  const auto order = DistributedSampler(size, {.seed = 3}).Indices(4);
  for (const int64_t consumed : {0, 1, 24, 60, 99, 100}) {
    for (const int world : {1, 2, 3, 8}) {
      Values rest(order.begin() + consumed, order.end());
      std::sort(rest.begin(), rest.end());
      Values dealt;
      for (int rank = 0; rank < world; ++rank) {
        const DistributedSampler sampler(
            size, {.rank = rank, .world_size = world, .seed = 3, .uneven = Uneven::kExact});
        const Values mine = sampler.Indices(4, consumed);
        EXPECT_EQ(sampler.num_examples(consumed), static_cast<int64_t>(mine.size()));
        dealt.insert(dealt.end(), mine.begin(), mine.end());
      }
      std::sort(dealt.begin(), dealt.end());
      EXPECT_EQ(dealt, rest) << consumed << " consumed, " << world << " ranks";
    }
  }
}

TEST(DistributedSamplerTest, AsManyRanksGoOnAsIfNothingHadBeen) {
  for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop, Uneven::kExact}) {
    for (int rank = 0; rank < 3; ++rank) {
      const DistributedSampler sampler(
          50, {.rank = rank, .world_size = 3, .seed = 3, .uneven = uneven});
      Values rest = sampler.Indices(1);
      rest.erase(rest.begin(), rest.begin() + 8);
      EXPECT_EQ(sampler.Indices(1, /*consumed=*/24), rest);
    }
  }
}

TEST(DistributedSamplerTest, RefusesToHaveConsumedMoreThanThereIs) {
  const DistributedSampler sampler(10);
  EXPECT_THROW(sampler.Indices(0, 10), std::invalid_argument);
  EXPECT_THROW(sampler.num_examples(-1), std::invalid_argument);
}

TEST(DistributedSamplerTest, SaysWhatIsWrong) {
  EXPECT_EQ(MessageOf(10, {.rank = 2, .world_size = 2}),
            "DistributedSampler: rank 2 is outside a world of 2");
  EXPECT_EQ(MessageOf(10, {.rank = -1, .world_size = 2}),
            "DistributedSampler: rank -1 is outside a world of 2");
  EXPECT_EQ(MessageOf(10, {.world_size = 0}),
            "DistributedSampler: world_size is 0; at least 1 is needed");
  EXPECT_EQ(MessageOf(0, {}), "DistributedSampler: the dataset has 0 examples");
  EXPECT_EQ(MessageOf(3, {.world_size = 4, .uneven = Uneven::kDrop}),
            "DistributedSampler: dropping what doesn't divide by 4 ranks leaves none of 3 "
            "examples");
}

}  // namespace
}  // namespace ddp
