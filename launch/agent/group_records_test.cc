#include "launch/agent/group_records.h"

#include <gtest/gtest.h>

#include <csignal>

#include "ddp/errors.h"

namespace launch {
namespace {

NodeInfo Node(int64_t id, int num_ranks) {
  return {.id = id,
          .host = "host" + std::to_string(id),
          .address = "10.0.0." + std::to_string(id),
          .free_port = static_cast<int>(1000 + id),
          .num_ranks = num_ranks,
          .node_rank = std::nullopt};
}

GroupPlan Plan3() {
  return {.nodes = {Node(7, 2), Node(4, 1), Node(9, 3)},
          .max_nodes = 4,
          .restart = 5,
          .store_address = "10.0.0.7:400",
          .run_id = "job",
          .because = "why"};
}

TEST(GroupRecords, APlanGivesEachNodeItsRanks) {
  const GroupPlan plan = DecodeGroupPlan(Encode(Plan3()));
  EXPECT_EQ(plan.max_nodes, 4);
  const std::optional<Assignment> last = AssignmentOf(plan, 9);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->node_rank, 2);
  EXPECT_EQ(last->num_nodes, 3);
  EXPECT_EQ(last->first_rank, 3);
  EXPECT_EQ(last->world_size, 6);
  EXPECT_EQ(last->restart, 5);
  EXPECT_EQ(last->master_addr, "10.0.0.7");
  EXPECT_EQ(last->master_port, 1007);
  EXPECT_EQ(last->store_address, "10.0.0.7:400");
  EXPECT_EQ(last->run_id, "job");
  EXPECT_EQ(last->because, "why");
  EXPECT_EQ(AssignmentOf(plan, 4)->first_rank, 2);
  EXPECT_FALSE(AssignmentOf(plan, 5)) << "not among them";
}

TEST(GroupRecords, EndsSurviveTheWay) {
  NodeEnd end;
  RankEnd rank{.rank = 3,
               .wait_status = SIGKILL,
               .time = std::chrono::steady_clock::now(),
               .stop_signal = SIGTERM,
               .was_killed = true,
               .report = RankReport{std::chrono::steady_clock::now(), 1, "lost \xff rank 1"}};
  end.report = {.ends = {rank, RankEnd{}}, .progress = 12};
  end.has_left = true;
  const NodeEnd read = DecodeNodeEnd(Encode(end));
  ASSERT_EQ(read.report.ends.size(), 2u);
  const RankEnd& first = read.report.ends[0];
  EXPECT_EQ(first.rank, 3);
  EXPECT_EQ(first.wait_status, SIGKILL);
  EXPECT_EQ(first.stop_signal, SIGTERM);
  EXPECT_TRUE(first.was_killed);
  ASSERT_TRUE(first.report);
  EXPECT_EQ(first.report->lost_peer, 1);
  EXPECT_EQ(first.report->reason, "lost \xEF\xBF\xBD rank 1");
  // Clocks may be set meanwhile, but not by minutes.
  EXPECT_LT(std::chrono::abs(first.time - rank.time), std::chrono::minutes(1));
  EXPECT_EQ(read.report.progress, 12);
  EXPECT_TRUE(read.has_left);
  EXPECT_FALSE(read.lost);
  EXPECT_EQ(DecodeNodeEnd(Encode(NodeEnd{.lost = "gone"})).lost, "gone");
}

TEST(GroupRecords, VerdictsAndReasonsToo) {
  const GroupPlan plan =
      DecodeGroupPlan(Encode(GroupPlan{.verdict = Verdict{3, "rank 1 failed", 1, 2, {}}}));
  ASSERT_TRUE(plan.verdict);
  EXPECT_EQ(plan.verdict->exit_code, 3);
  EXPECT_EQ(plan.verdict->reason, "rank 1 failed");
  EXPECT_EQ(plan.verdict->failed_rank, 1);
  EXPECT_EQ(plan.verdict->restarts, 2);
  const Over over = DecodeOver(Encode(Over{"host b has come", false}));
  EXPECT_EQ(over.reason, "host b has come");
  EXPECT_FALSE(over.is_failure);
  NodeInfo node = Node(1, 2);
  node.node_rank = 3;
  EXPECT_EQ(DecodeNodeInfo(Encode(node)).node_rank, 3);
}

TEST(GroupRecords, OtherTextIsAnError) {
  for (const char* text : {"", "{}", "no json", "[1]"}) {
    EXPECT_THROW(DecodeNodeInfo(text), ddp::CollectiveError) << text;
    EXPECT_THROW(DecodeGroupPlan(text), ddp::CollectiveError) << text;
    EXPECT_THROW(DecodeNodeEnd(text), ddp::CollectiveError) << text;
  }
}

}  // namespace
}  // namespace launch
