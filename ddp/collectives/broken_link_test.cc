// Two ranks in network namespaces of their own, and a link between them that breaks without a word,
// as when a machine loses its power: both are told soon after the heartbeat timeout, whatever their
// operations' timeout. The store is at the far end of the link for one of them. Needs root, and
// `ip` of Debian's iproute2.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/file_descriptor.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr Duration kTimeout = 60s;
constexpr Duration kHeartbeatTimeout = 2s;
// On a busy machine.
constexpr Duration kSoon = 10s;

std::string AddressOf(int rank) { return fmt::format("10.77.0.{}", rank + 1); }

// Runs `function` on a thread of its own. What it throws is thrown here.
void RunOnThread(const std::function<void()>& function) {
  std::async(std::launch::async, function).get();
}

// A network namespace, by its descriptor.
class Namespace {
 public:
  // Throws std::system_error where that isn't permitted.
  Namespace() {
    RunOnThread([this] {
      if (unshare(CLONE_NEWNET) != 0) ThrowSystemError(errno, "no network namespace");
      descriptor_ = FileDescriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    });
  }

  // From now on the calling thread is in it, and the threads and processes that it starts.
  void Enter() const {
    if (setns(descriptor_.get(), CLONE_NEWNET) != 0) {
      ThrowSystemError(errno, "can't enter a network namespace");
    }
  }

  // Runs a command in it. Throws std::runtime_error when it fails.
  void Run(const std::string& command) const {
    RunOnThread([&] {
      Enter();
      if (std::system(command.c_str()) != 0) {
        throw std::runtime_error(fmt::format("'{}' failed", command));
      }
    });
  }

  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), descriptor_.get()); }

 private:
  FileDescriptor descriptor_;
};

// Two namespaces, joined by a pair of interfaces "wire".
class Link {
 public:
  Link() {
    ends_[0].Run(
        fmt::format("ip link add wire type veth peer name wire netns {}", ends_[1].path()));
    for (int rank = 0; rank < 2; ++rank) {
      ends_[rank].Run(fmt::format("ip address add {}/24 dev wire", AddressOf(rank)));
      ends_[rank].Run("ip link set lo up && ip link set wire up");
    }
  }

  const Namespace& end(int rank) const { return ends_[rank]; }

  // The interface of rank 0 goes down.
  void TakeDown() const { ends_[0].Run("ip link set wire down"); }

  // What one end sends doesn't reach the other any more, and neither has a way to know.
  void Swallow() const {
    for (int rank = 0; rank < 2; ++rank) {
      ends_[rank].Run(fmt::format("ip neighbour replace {} lladdr 02:00:00:00:00:99 dev wire",
                                  AddressOf(1 - rank)));
    }
  }

 private:
  std::array<Namespace, 2> ends_;
};

struct Case {
  std::string name;
  void (Link::*cut)() const;
  // Of a rank that works until it fails.
  std::function<void(ProcessGroup& group)> work;
};

void WaitForAMessage(ProcessGroup& group) {
  float value = 0;
  group.Receive({&value, 1}, 1 - group.rank())->Wait();
}

void ReduceWithoutEnd(ProcessGroup& group) {
  std::vector<float> values(4 << 20);
  for (;;) group.AllReduce({values.data(), 4 << 20}, ReduceOp::kMax)->Wait();
}

class BrokenLinkTest : public testing::TestWithParam<Case> {};

TEST_P(BrokenLinkTest, ThePeerIsLostSoonAfterTheHeartbeatTimeout) {
  ASSERT_EQ(std::system("command -v ip > /dev/null"), 0) << "needs ip, of the package iproute2";
  std::unique_ptr<Link> link;
  try {
    link = std::make_unique<Link>();
  } catch (const std::exception& error) {
    GTEST_SKIP() << "this machine has no link to break: " << error.what();
  }
  std::unique_ptr<TcpStoreServer> server;
  std::latch listening(1);
  std::latch joined(2);
  std::array<Clock::time_point, 2> told;
  const auto run_rank = [&](int rank) {
    link->end(rank).Enter();
    if (rank == 0) server = std::make_unique<TcpStoreServer>();
    if (rank == 0) listening.count_down();
    listening.wait();
    const auto group =
        InitProcessGroup({.backend = "gloo",
                          .rank = rank,
                          .world_size = 2,
                          .store = std::make_shared<TcpStore>(AddressOf(0), server->port()),
                          .timeout = kTimeout,
                          .heartbeat_timeout = kHeartbeatTimeout,
                          .interface = "wire",
                          .host = fmt::format("host{}", rank)});
    joined.count_down();
    try {
      GetParam().work(*group);
      ADD_FAILURE() << "no error";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.peer(), 1 - rank);
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("lost rank {}: ", 1 - rank)));
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another error: " << error.what();
    }
    told[rank] = Clock::now();
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(run_rank, rank);
  joined.wait();
  std::this_thread::sleep_for(300ms);  // to be in the middle of it
  const auto start = Clock::now();
  ((*link).*GetParam().cut)();
  for (std::thread& rank : ranks) rank.join();
  const auto end = Clock::now();
  for (int rank = 0; rank < 2; ++rank) {
    fmt::print("rank {} after {}\n", rank, FormatSeconds(told[rank] - start));
    EXPECT_LE(told[rank] - start, kSoon) << "rank " << rank;
    EXPECT_GE(told[rank] - start, kHeartbeatTimeout / 2) << "rank " << rank;
  }
  EXPECT_LE(end - start, 2 * kSoon) << "until both groups had ended";
}

INSTANTIATE_TEST_SUITE_P(All, BrokenLinkTest,
                         testing::Values(Case{"DownIdle", &Link::TakeDown, WaitForAMessage},
                                         Case{"DownBusy", &Link::TakeDown, ReduceWithoutEnd},
                                         Case{"SilentIdle", &Link::Swallow, WaitForAMessage},
                                         Case{"SilentBusy", &Link::Swallow, ReduceWithoutEnd}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ddp
