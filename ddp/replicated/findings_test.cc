#include "ddp/replicated/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace ddp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(FindingsTest, TravelAsText) {
  Findings findings;
  EXPECT_EQ(findings.Encode(), "");
  EXPECT_TRUE(Findings::Decode("").empty());
  findings.follows = true;
  findings.unreached = {"a", "b.c"};
  findings.errors = {"no weight"};
  const Findings decoded = Findings::Decode(findings.Encode());
  EXPECT_TRUE(decoded.follows);
  EXPECT_THAT(decoded.unreached, ElementsAre("a", "b.c"));
  EXPECT_THAT(decoded.errors, ElementsAre("no weight"));
  EXPECT_THAT(decoded.frozen, IsEmpty());
  EXPECT_THROW(Findings::Decode("xa\n"), std::invalid_argument);
  EXPECT_THROW(Findings::Decode("ua"), std::invalid_argument);
}

TEST(JudgeTest, NamesParametersAndRanks) {
  const std::vector<Findings> ranks = {{}, {.unreached = {"a"}, .not_finite = {"b"}}};
  EXPECT_EQ(Judge(ranks).trouble,
            "rank 1: no gradient for 'a' (the loss doesn't depend on it; find_unused_parameters "
            "allows that); the gradient of 'b' isn't finite");
  EXPECT_FALSE(Judge(ranks).only_not_finite);
  EXPECT_TRUE(Judge(ranks, /*may_lack_gradients=*/true).only_not_finite);
}

TEST(JudgeTest, WhatAllHaveFrozenIsNoTrouble) {
  const std::vector<Findings> ranks = {
      {.frozen = {"a"}, .thawed = {"b"}}, {.follows = true}, {.frozen = {"a"}, .thawed = {"b"}}};
  EXPECT_EQ(Judge(ranks).trouble, "");
  EXPECT_THAT(Judge(ranks).frozen, ElementsAre("a"));
  EXPECT_THAT(Judge(ranks).thawed, ElementsAre("b"));
}

TEST(JudgeTest, WhatSomeHaveFrozenIs) {
  const std::vector<Findings> ranks = {{.frozen = {"a"}}, {}, {.thawed = {"b"}}};
  EXPECT_EQ(Judge(ranks).trouble,
            "rank 0: 'b' is frozen here and trained elsewhere; "
            "rank 1: 'a' is trained here and frozen elsewhere; 'b' is frozen here and trained "
            "elsewhere; rank 2: 'a' is trained here and frozen elsewhere");
}

}  // namespace
}  // namespace ddp
