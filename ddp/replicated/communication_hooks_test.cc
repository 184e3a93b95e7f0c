#include "ddp/replicated/communication_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/hooks/testing.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What the hook of this name sends of a bucket with a matrix [30, 40] and 200 other elements.
std::vector<std::string> CallsOf(TestRank& rank, const std::string& name) {
  const auto joined = rank.Join({.store = std::make_shared<PrefixStore>(name, rank.store())});
  CountingGroup group(*joined);
  MakeHook(name).hook(group, MakeBucket({{30, 40}, {200}}, ops::DType::kFloat32, 0))->Wait();
  return group.calls();
}

TEST(MakeHook, KnowsThemByName) {
  RunRanks(2, [](TestRank& rank) {
    EXPECT_THAT(CallsOf(rank, "none"), ElementsAre("all_reduce float32[1400]"));
    EXPECT_THAT(CallsOf(rank, "fp16"), ElementsAre("all_reduce float16[1400]"));
    EXPECT_THAT(CallsOf(rank, "bf16"), ElementsAre("all_reduce bfloat16[1400]"));
    EXPECT_THAT(CallsOf(rank, "int8").at(0), "all_to_all uint8[1424]");
    EXPECT_THAT(CallsOf(rank, "topk").at(1), "all_gather float32[14]");
    EXPECT_THAT(CallsOf(rank, "topk:0.5").at(1), "all_gather float32[700]");
    EXPECT_THAT(CallsOf(rank, "powersgd"), ElementsAre("all_reduce float32[1400]"));
    EXPECT_THAT(CallsOf(rank, "powersgd:2:0"),
                ElementsAre("all_reduce float32[260]", "all_reduce float32[80]"));
    EXPECT_THAT(CallsOf(rank, "local"), ElementsAre("all_reduce float32[1400]"));
    EXPECT_THAT(CallsOf(rank, "local:8:0"), testing::IsEmpty());
    EXPECT_THAT(CallsOf(rank, "fp16+powersgd:1:0"),
                ElementsAre("all_reduce float16[230]", "all_reduce float16[40]"));
    EXPECT_THAT(CallsOf(rank, "local+bf16"), ElementsAre("all_reduce bfloat16[1400]"));
  });
}

TEST(MakeHook, LocalIsAveraged) {
  EXPECT_FALSE(MakeHook("fp16").averaging);
  const auto averaging = MakeHook("local:8:50").averaging;
  ASSERT_TRUE(averaging);
  EXPECT_EQ(averaging->period, 8);
  EXPECT_EQ(averaging->warm_up_steps, 50);
}

// A training that goes on at step 3 does what the others would have done in their fourth.
TEST(MakeHook, CountsFromTheFirstStep) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    CountingGroup counting(*group);
    const GradientBucket bucket = MakeBucket({{20, 70}, {3}}, ops::DType::kFloat32, /*gap=*/0);
    MakeHook("local:8:3", /*first_step=*/3).hook(counting, bucket)->Wait();
    EXPECT_THAT(counting.calls(), testing::IsEmpty());
    MakeHook("powersgd:1:3", /*first_step=*/3).hook(counting, bucket)->Wait();
    EXPECT_EQ(counting.calls().size(), 2u);
  });
  EXPECT_EQ(MakeHook("local:8:3", 5).averaging->first_step, 5);
}

TEST(MakeHook, TellsWhatHooksRemember) {
  for (const char* const name : {"int8", "topk", "powersgd", "local+int8", "fp16+topk"}) {
    EXPECT_TRUE(MakeHook(name).remembers) << name;
  }
  for (const char* const name : {"none", "fp16", "local", "local+bf16"}) {
    EXPECT_FALSE(MakeHook(name).remembers) << name;
  }
}

TEST(MakeHook, ListsThemWhenAskedForAnother) {
  for (const char* const name : {"", "fp8", "fp16:2", "none+fp16", "fp16+", "int8+fp16", "topk:x",
                                 "topk:0.1:2", "powersgd:1.5", "bf16+local", "local:0"}) {
    try {
      MakeHook(name);
      ADD_FAILURE() << name << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("fp16, bf16, int8, topk[:RATIO], powersgd")) << name;
    }
  }
  EXPECT_THROW(MakeHook("topk:2"), std::invalid_argument);
  EXPECT_THROW(MakeHook("powersgd:0"), std::invalid_argument);
}

}  // namespace
}  // namespace ddp
