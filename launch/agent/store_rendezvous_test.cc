// One agent at a store where the test decides in the coordinator's place.
#include "launch/agent/store_rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ddp/duration.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"
#include "launch/agent/coordinator.h"

namespace launch {
namespace {

using namespace std::chrono_literals;

constexpr char kHost[] = "127.0.0.1";

class StoreRendezvousTest : public testing::Test {
 protected:
  StoreRendezvousTest() { store_.Set("generation", "0"); }

  // Lets the agent come, and publishes a plan in which there is another, but not this one. Returns
  // when the agent has joined the next generation.
  void LeaveOut(int max_nodes) {
    StoreRendezvous agent(
        {.max_nodes = max_nodes, .host = kHost, .port = server_.port(), .node_rank = 1}, 2, "run",
        RestartLimits{});
    agent.Join();
    HandleUntil(&agent, "0/join/0");
    store_.Set("generation", "1");
    store_.Set("0/plan", Encode(GroupPlan{.nodes = {{.id = 0}}, .max_nodes = max_nodes}));
    HandleUntil(&agent, "1/join/0");
  }

  void HandleUntil(StoreRendezvous* agent, const std::string& key) {
    const ddp::Deadline deadline = ddp::DeadlineAfter(60s);
    for (; !store_.Check({key}); agent->Handle()) {
      std::vector<pollfd> events;
      for (const int fd : agent->fds()) events.push_back({fd, POLLIN, 0});
      const ddp::Deadline next = std::min(deadline, agent->next_deadline());
      poll(events.data(), events.size(), ddp::MillisecondsLeft(next));
      ASSERT_GT(ddp::TimeLeft(deadline), ddp::Duration::zero()) << "no " << key;
    }
  }

  ddp::TcpStoreServer server_{{.host = kHost}};
  ddp::TcpStore store_{kHost, server_.port(), {.timeout = 60s}};
};

TEST_F(StoreRendezvousTest, OneThatCameWhileThePlanWasMadeAsksForItsPlace) {
  LeaveOut(2);
  const Over over = DecodeOver(store_.Get("0/over"));
  EXPECT_TRUE(over.reason.ends_with(" has come")) << over.reason;
  EXPECT_FALSE(over.is_failure);
}

TEST_F(StoreRendezvousTest, OneTooManyAsksForNothing) {
  LeaveOut(1);
  EXPECT_FALSE(store_.Check({"0/over"}));
}

}  // namespace
}  // namespace launch
