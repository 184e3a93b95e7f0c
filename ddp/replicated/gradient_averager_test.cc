#include "ddp/replicated/gradient_averager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/errors.h"

namespace ddp {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class GradientAveragerTest : public GroupTest {};

INSTANTIATE_TEST_SUITE_P(All, GradientAveragerTest, testing::ValuesIn(AllSettings({1, 2, 3})),
                         [](const auto& setting) { return setting.param.Name(); });

// Element i of array a on a rank, in a step: the average over the ranks is that of their mean.
float ValueOf(int array, int64_t i, float rank, int step) {
  return 100.0f * array + static_cast<float>(i % 13) + 2 * rank + 1000.0f * step;
}

// Arrays that share buckets with others, have one of their own, and lie in the bucket's memory.
TEST_P(GradientAveragerTest, AveragesInEveryKindOfBucket) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    const std::vector<int64_t> sizes = {3, 1000, 17, 1, 400, 1000};
    std::vector<std::vector<float>> own;
    std::vector<NamedArray> arrays;
    for (size_t a = 0; a < sizes.size(); ++a) {
      const bool has_memory = a % 3 != 2;
      own.emplace_back(has_memory ? sizes[a] : 0);
      arrays.push_back(
          {"array " + std::to_string(a), {has_memory ? own.back().data() : nullptr, sizes[a]}});
    }
    GradientAverager averager(group, arrays, {.bucket_bytes = 2000, .first_bucket_bytes = 4000});
    EXPECT_EQ(averager.num_buckets(), 4);  // {5}, {4, 3, 2}, {1}, {0}
    EXPECT_EQ(averager.array("array 1").data, own[1].data());
    EXPECT_THAT(averager.array(0).data, own[0].data());

    for (int step = 0; step < 3; ++step) {
      for (int a = averager.num_arrays() - 1; a >= 0; --a) {
        float* data = static_cast<float*>(averager.array(a).data);
        for (int64_t i = 0; i < sizes[a]; ++i) data[i] = ValueOf(a, i, rank.rank(), step);
        averager.Ready(a);
      }
      averager.Wait();
      for (int a = 0; a < averager.num_arrays(); ++a) {
        const float* data = static_cast<float*>(averager.array(a).data);
        for (int64_t i = 0; i < sizes[a]; ++i) {
          ASSERT_EQ(data[i], ValueOf(a, i, (size() - 1) / 2.0f, step)) << a << " " << i;
        }
      }
    }
  });
}

TEST_P(GradientAveragerTest, OneArrayInItsOwnBucketIsReducedInPlace) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<double> values(10, rank.rank());
    GradientAverager averager(group, {{"a", BufferOfVector(values)}});
    averager.Ready("a");
    averager.Wait();
    EXPECT_THAT(values, Each((size() - 1) / 2.0));
  });
}

TEST_P(GradientAveragerTest, DTypesHaveBucketsOfTheirOwn) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<float> a(2, 2 * rank.rank()), c(2, 4 * rank.rank());
    std::vector<double> b(3, rank.rank());
    GradientAverager averager(
        group, {{"a", BufferOfVector(a)}, {"b", BufferOfVector(b)}, {"c", BufferOfVector(c)}});
    EXPECT_EQ(averager.num_buckets(), 2);
    // In any order; another one on each rank.
    for (int i = 0; i < 3; ++i) averager.Ready((i + rank.rank()) % 3);
    averager.Wait();
    EXPECT_THAT(a, Each(size() - 1));
    EXPECT_THAT(b, Each((size() - 1) / 2.0));
    EXPECT_THAT(c, Each(2 * (size() - 1)));
  });
}

TEST_P(GradientAveragerTest, EmptyArraysAreArrays) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<float> a(2, rank.rank());
    GradientAverager averager(group, {{"a", BufferOfVector(a)}, {"empty", {nullptr, 0}}},
                              {.first_bucket_bytes = 1});
    averager.Ready("empty");
    averager.Ready("a");
    averager.Wait();
    EXPECT_THAT(a, Each((size() - 1) / 2.0f));
  });
}

TEST_P(GradientAveragerTest, AForgottenGradientIsNamedOnEveryRankAndTheNextRoundIsRight) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<float> a(2), b(2);
    GradientAverager averager(group, {{"a", BufferOfVector(a)}, {"b", BufferOfVector(b)}},
                              {.bucket_bytes = 1, .first_bucket_bytes = 1});
    const int forgetful = size() - 1;
    averager.Ready("a");
    if (rank.rank() != forgetful) averager.Ready("b");
    EXPECT_EQ(MessageOf([&] { averager.Wait(); }),
              "Wait() was called without Ready() for rank " + std::to_string(forgetful) + ": 'b'");

    a.assign(2, rank.rank());
    b.assign(2, 1);
    averager.Ready("b");
    averager.Ready("a");
    averager.Wait();
    EXPECT_THAT(a, Each((size() - 1) / 2.0f));
    EXPECT_THAT(b, Each(1));
  });
}

TEST_P(GradientAveragerTest, ReadyTwiceIsNamedAndChangesNothing) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<float> a(2, rank.rank()), b(2, 1);
    GradientAverager averager(group, {{"a", BufferOfVector(a)}, {"b", BufferOfVector(b)}});
    averager.Ready("a");
    EXPECT_EQ(MessageOf([&] { averager.Ready("a"); }), "array 'a' is ready twice in one round");
    EXPECT_EQ(MessageOf([&] { averager.Ready("c"); }), "there is no array 'c'");
    EXPECT_EQ(MessageOf([&] { averager.Ready(2); }), "there is no array 2, only 0 to 1");
    averager.Ready("b");
    averager.Wait();
    EXPECT_THAT(a, Each((size() - 1) / 2.0f));
    EXPECT_THAT(b, Each(1));
  });
}

// What three ranks throw when rank 1's arrays are `other`.
std::string MismatchOf(const std::vector<NamedArray>& usual, const std::vector<NamedArray>& other) {
  std::vector<std::string> messages(3);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    try {
      GradientAverager averager(*group, rank.rank() == 1 ? other : usual);
    } catch (const MismatchError& error) {
      messages[rank.rank()] = error.what();
    }
  });
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(messages[0], messages[2]);
  return messages[0];
}

TEST(GradientAveragerAgreementTest, TheFirstArrayThatDiffersIsNamed) {
  const std::vector<NamedArray> usual = {{"a", {nullptr, 4}}, {"b", {nullptr, 5}}};
  EXPECT_EQ(MismatchOf(usual, {{"a", {nullptr, 4}}, {"b", {nullptr, 6}}}),
            "the ranks' arrays differ, first in entry 1: ranks 0, 2 have array 'b' float32[5], "
            "rank 1 has array 'b' float32[6]");
  EXPECT_THAT(MismatchOf(usual, {{"a", {nullptr, 4, ops::DType::kFloat64}}, {"b", {nullptr, 5}}}),
              HasSubstr("rank 1 has array 'a' float64[4]"));
  EXPECT_THAT(MismatchOf(usual, {{"b", {nullptr, 5}}, {"a", {nullptr, 4}}}),
              HasSubstr("rank 1 has array 'b' float32[5]"));
  EXPECT_THAT(MismatchOf(usual, {{"a", {nullptr, 4}}}), HasSubstr("have array 'b' float32[5]"));
}

TEST(GradientAveragerAgreementTest, ArraysThatCannotBeAveraged) {
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    const auto message_of = [&](const std::vector<NamedArray>& arrays) {
      return MessageOf([&] { GradientAverager averager(*group, arrays); });
    };
    EXPECT_EQ(message_of({}), "GradientAverager: no arrays to average");
    EXPECT_EQ(message_of({{"a", {nullptr, -1}}}), "array 'a' has -1 elements");
    EXPECT_EQ(message_of({{"a", {nullptr, 2}}, {"a", {nullptr, 2}}}),
              "two arrays have the name 'a'");
    EXPECT_EQ(message_of({{"a", {nullptr, 2, ops::DType::kInt64}}}),
              "array 'a' is int64: only floating point numbers have an average");
  });
}

// A rank whose own calculation throws doesn't leave the others waiting.
TEST(GradientAveragerFailureTest, AnAveragerThatEndsInARoundAbortsTheGroup) {
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    std::vector<float> a(2), b(2);
    const auto round = [&] {
      GradientAverager averager(*group, {{"a", BufferOfVector(a)}, {"b", BufferOfVector(b)}},
                                {.bucket_bytes = 1, .first_bucket_bytes = 1});
      averager.Ready("b");
      if (rank.rank() == 1) throw std::runtime_error("boom");
      averager.Ready("a");
      averager.Wait();
    };
    EXPECT_THAT(
        MessageOf(round),
        HasSubstr(rank.rank() == 1 ? "boom" : "a GradientAverager ended before its Wait()"));
  });
}

TEST_P(GradientAveragerTest, BroadcastsInitialValues) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<float> weights(3);
    std::iota(weights.begin(), weights.end(), 10.0f * rank.rank());
    std::vector<int64_t> steps = {rank.rank() + 5};
    BroadcastFromRank0(group,
                       {{"weights", BufferOfVector(weights)}, {"steps", BufferOfVector(steps)}});
    EXPECT_THAT(weights, ElementsAre(0, 1, 2));
    EXPECT_THAT(steps, ElementsAre(5));
  });
}

}  // namespace
}  // namespace ddp
