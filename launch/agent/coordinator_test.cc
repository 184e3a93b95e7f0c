// The coordinator from its agents' side: what they write into its store, and what they find there.
#include "launch/agent/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "ddp/errors.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"

namespace launch {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

constexpr char kHost[] = "127.0.0.1";

class CoordinatorTest : public testing::Test {
 protected:
  // Begins to gather two nodes.
  void Begin() {
    auto server = std::make_unique<ddp::TcpStoreServer>(ddp::TcpStoreServerOptions{.host = kHost});
    GroupOptions options = options_;
    options.host = kHost;
    options.port = server->port();
    store_ =
        std::make_unique<ddp::TcpStore>(kHost, options.port, ddp::TcpStoreOptions{.timeout = 60s});
    store_->Set("0/gone/7", "");
    store_->Set("bye/0", "");
    coordinator_ =
        std::make_unique<Coordinator>(std::move(server), options, "run", RestartLimits{});
  }

  // The `number`-th that wants to take part in a generation.
  void Join(int64_t generation, int number, int64_t id) {
    store_->Set(GroupKey(generation, "join/" + std::to_string(number)), Encode(NodeInfo{.id = id}));
  }

  GroupPlan PlanOf(int64_t generation) {
    return DecodeGroupPlan(store_->Get(GroupKey(generation, "plan")));
  }

  GroupOptions options_ = {.min_nodes = 2, .max_nodes = 2};
  std::unique_ptr<ddp::TcpStore> store_;
  std::unique_ptr<Coordinator> coordinator_;
};

auto NodesAre(int64_t first, int64_t second) {
  return ElementsAre(Field(&NodeInfo::id, first), Field(&NodeInfo::id, second));
}

TEST_F(CoordinatorTest, OneThatHasGoneIsReplaced) {
  Begin();
  Join(0, 0, 7);
  Join(0, 1, 0);
  Join(0, 2, 3);
  EXPECT_THAT(PlanOf(0).nodes, NodesAre(0, 3));
}

TEST_F(CoordinatorTest, OneThatHasGoneDoesNotEndTheWaitForEnough) {
  options_.max_nodes = 3;
  options_.node_wait = 50ms;
  Begin();
  Join(0, 0, 7);
  Join(0, 1, 0);
  EXPECT_THROW(store_->Wait({"0/plan"}, 4 * options_.node_wait), ddp::TimeoutError);
  Join(0, 2, 3);
  EXPECT_THAT(PlanOf(0).nodes, NodesAre(0, 3));
}

TEST_F(CoordinatorTest, WhoIsNotUnderstoodEndsTheJob) {
  Begin();
  store_->Set("0/join/0", "[]");
  ASSERT_TRUE(PlanOf(0).verdict.has_value());
  EXPECT_EQ(PlanOf(0).verdict->exit_code, 1);
  EXPECT_THAT(PlanOf(0).verdict->reason, HasSubstr("[]"));
}

TEST_F(CoordinatorTest, AnEndThatIsNotUnderstoodIsToldWhereAgentsWaitForThePlan) {
  Begin();
  Join(0, 0, 0);
  Join(0, 1, 1);
  EXPECT_FALSE(PlanOf(0).verdict.has_value());
  store_->Set("0/end/0", "[]");
  store_->Set("0/end/1", "[]");
  ASSERT_TRUE(PlanOf(1).verdict.has_value());
  EXPECT_EQ(PlanOf(1).verdict->exit_code, 1);
  EXPECT_FALSE(PlanOf(0).verdict.has_value());
}

}  // namespace
}  // namespace launch
