#include "ops/cpu/broadcast.h"

#include <gtest/gtest.h>

namespace ops::cpu {
namespace {

TEST(BroadcastTest, DimensionsThatGoTogetherAreMerged) {
  const BroadcastPlan rows = PlanBroadcast({64, 32, 8}, {8}, {64, 32, 8});
  ASSERT_EQ(rows.rank, 2);
  EXPECT_EQ(rows.dims[0].extent, 64 * 32);
  EXPECT_EQ(rows.dims[0].b_stride, 0);
  EXPECT_EQ(rows.inner().extent, 8);
  EXPECT_EQ(rows.inner().b_stride, 1);

  const BroadcastPlan same = PlanBroadcast({4, 5, 6}, {1, 4, 5, 6}, {1, 4, 5, 6});
  EXPECT_EQ(same.rank, 1);
  EXPECT_EQ(same.inner().extent, 120);
}

TEST(BroadcastTest, RowsBeginWhereTheOperandsDo) {
  // b is repeated over the first and the last dimension.
  const BroadcastPlan plan = PlanBroadcast({2, 3, 5}, {3, 1}, {2, 3, 5});
  ASSERT_EQ(plan.rank, 3);
  EXPECT_EQ(plan.inner().b_stride, 0);
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(plan.OfRow(row).a, 5 * row);
    EXPECT_EQ(plan.OfRow(row).b, row % 3);
  }
}

TEST(BroadcastTest, BothOperandsMayBeRepeated) {
  const BroadcastPlan plan = PlanBroadcast({4, 1}, {1, 3}, {4, 3});
  ASSERT_EQ(plan.rank, 2);
  EXPECT_EQ(plan.OfRow(2).a, 2);
  EXPECT_EQ(plan.OfRow(2).b, 0);
  EXPECT_EQ(plan.inner().a_stride, 0);
  EXPECT_EQ(plan.inner().b_stride, 1);
}

}  // namespace
}  // namespace ops::cpu
