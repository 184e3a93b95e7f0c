#include "slurm/task_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace slurm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TaskCounts, EqualNeighboursShareACount) {
  EXPECT_THAT(ExpandTaskCounts("4", 1), ElementsAre(4));
  EXPECT_THAT(ExpandTaskCounts("2(x2)", 2), ElementsAre(2, 2));
  EXPECT_THAT(ExpandTaskCounts("3,1(x2)", 3), ElementsAre(3, 1, 1));
  EXPECT_THAT(ExpandTaskCounts("1,2,1(x3),3,2", 7), ElementsAre(1, 2, 1, 1, 1, 3, 2));
}

TEST(TaskCounts, RepetitionsMayExceedTheNodes) {
  EXPECT_THAT(ExpandTaskCounts("4(x30)", 1), ElementsAre(4));
  EXPECT_THAT(ExpandTaskCounts("4(x2000000000),1", 2), ElementsAre(4, 4));
}

TEST(TaskCounts, TooFewAreNamed) {
  EXPECT_THAT([] { ExpandTaskCounts("2(x2)", 3); },
              ThrowsMessage<std::invalid_argument>("counts '2(x2)' are of 2 nodes, not of 3"));
}

class BadCounts : public testing::TestWithParam<const char*> {};

TEST_P(BadCounts, AreRefused) {
  EXPECT_THAT([] { ExpandTaskCounts(GetParam(), 2); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("such as 2(x2),1")));
}

INSTANTIATE_TEST_SUITE_P(All, BadCounts,
                         testing::Values("", ",", "2,", ",2", "two", "0", "-1", "2(x2", "2(x)",
                                         "2(x0)", "2(2)", "2x2", "2(x2))", "2 ,2", "2;2",
                                         "99999999999"));

}  // namespace
}  // namespace slurm
