#include "launch/agent/restart_policy.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

RankEnd Exited(int rank, int code) {
  RankEnd end;
  end.rank = rank;
  end.wait_status = code << 8;
  return end;
}

NodeReport Failed(std::optional<int64_t> progress = {}) {
  return {.ends = {Exited(0, 0), Exited(1, 3)}, .progress = progress};
}

TEST(RestartPolicy, DoneIsDone) {
  RestartPolicy policy({.max_restarts = 3});
  const std::optional<Verdict> verdict = policy.Judge({.ends = {Exited(0, 0)}, .progress = {}});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->exit_code, 0);
  EXPECT_EQ(verdict->reason, "");
}

TEST(RestartPolicy, RequeueIsPassedOn) {
  RestartPolicy policy({.max_restarts = 3});
  const auto verdict = policy.Judge({.ends = {Exited(0, 75), Exited(1, 75)}, .progress = {}});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->exit_code, 75);
  EXPECT_EQ(policy.restarts(), 0);
}

TEST(RestartPolicy, NeverUnlessAllowed) {
  RestartPolicy policy({});
  const std::optional<Verdict> verdict = policy.Judge(Failed());
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->exit_code, 3);
  EXPECT_EQ(verdict->reason, "rank 1 failed: exit code 3");
  EXPECT_EQ(verdict->failed_rank, 1);
}

TEST(RestartPolicy, AsOftenAsAllowed) {
  RestartPolicy policy({.max_restarts = 2});
  EXPECT_FALSE(policy.Judge(Failed()));
  EXPECT_EQ(policy.why(), "rank 1 failed: exit code 3; restart 1 of 2");
  EXPECT_FALSE(policy.Judge(Failed()));
  const std::optional<Verdict> verdict = policy.Judge(Failed());
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->reason, "rank 1 failed: exit code 3 (restarts so far: 2, as many as allowed)");
  EXPECT_EQ(verdict->restarts, 2);
}

TEST(RestartPolicy, NotWithoutProgress) {
  RestartPolicy policy({.max_restarts = 100});
  EXPECT_FALSE(policy.Judge(Failed(10)));
  EXPECT_FALSE(policy.Judge(Failed(10)));
  EXPECT_FALSE(policy.Judge(Failed()));
  EXPECT_FALSE(policy.Judge(Failed(20))) << "came further";
  EXPECT_FALSE(policy.Judge(Failed(20)));
  EXPECT_FALSE(policy.Judge(Failed(15)));
  const std::optional<Verdict> verdict = policy.Judge(Failed(20));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->reason,
            "rank 1 failed: exit code 3 (no progress beyond step 20 in 3 attempts)");
}

TEST(RestartPolicy, ProgramsThatTellNothingAreBelieved) {
  RestartPolicy policy({.max_restarts = 10});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(policy.Judge(Failed()));
  EXPECT_TRUE(policy.Judge(Failed()));
}

TEST(RestartPolicy, ALostNodeIsAFailureThatOnlyAFaultExplainsBetter) {
  RankEnd lost_peer = Exited(0, 1);
  lost_peer.report = RankReport{{}, 2, "lost rank 2"};
  const std::string node = "node 1 (host b) was lost";
  EXPECT_EQ(RestartPolicy({}).Judge({.ends = {lost_peer}, .progress = {}}, node)->reason, node);
  EXPECT_EQ(RestartPolicy({}).Judge(Failed(), node)->reason, "rank 1 failed: exit code 3");
  EXPECT_FALSE(RestartPolicy({.max_restarts = 1}).Judge({.ends = {}, .progress = {}}, node));
}

}  // namespace
}  // namespace launch
