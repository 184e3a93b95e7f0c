// Making and ending groups: who may join, who is missing, what is left behind.
#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/testing.h"
#include "ddp/store/file_store.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

template <class Error>
std::string MessageOfInit(const ProcessGroupOptions& options) {
  try {
    InitProcessGroup(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no such error";
}

int CountEntries(const char* folder) {
  DIR* const entries = opendir(folder);
  int count = 0;
  while (readdir(entries) != nullptr) ++count;
  closedir(entries);
  return count;
}

void ExpectSumOfRanks(ProcessGroup& group) {
  int64_t value = group.rank();
  group.AllReduce({&value, 1, ops::DType::kInt64}, ReduceOp::kSum)->Wait();
  EXPECT_EQ(value, group.size() * (group.size() - 1) / 2);
}

TEST(InitTest, UnknownBackendsListTheKnown) {
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.backend = "glue"}),
              AllOf(HasSubstr("unknown backend 'glue'"), HasSubstr("'gloo'"), HasSubstr("'nccl'"),
                    HasSubstr("'mpi'")));
}

TEST(InitTest, BackendsOfLaterVersionsSayWhatWorks) {
  EXPECT_THAT(
      MessageOfInit<std::invalid_argument>({.backend = "nccl", .device = ops::Device::Cuda()}),
      AllOf(HasSubstr("isn't in this version"), HasSubstr("'auto'")));
}

TEST(InitTest, BackendsAndDevicesMustMatch) {
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.backend = "nccl"}),
              HasSubstr("needs cuda tensors, these are on cpu; 'auto' would work"));
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.device = ops::Device::Cuda(1)}),
              HasSubstr("CPU tensors only, these are on cuda:1"));
}

TEST(InitTest, RanksMustBeInTheWorld) {
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.world_size = 0}), HasSubstr("world_size 0"));
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.rank = 2, .world_size = 2}),
              HasSubstr("rank 2 is not in a world of 2"));
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.rank = -1, .world_size = 2}),
              HasSubstr("rank -1"));
  EXPECT_THAT(MessageOfInit<std::invalid_argument>({.world_size = 2}), HasSubstr("need a store"));
}

TEST(InitTest, OneRankNeedsNothing) {
  const int num_threads = CountEntries("/proc/self/task");
  const int num_files = CountEntries("/proc/self/fd");
  const auto group = InitProcessGroup({});
  EXPECT_EQ(group->backend(), "auto");
  ExpectSumOfRanks(*group);
  EXPECT_EQ(group->ExchangeBlobs("mine"), std::vector<std::string>{"mine"});
  EXPECT_EQ(CountEntries("/proc/self/task"), num_threads);
  EXPECT_EQ(CountEntries("/proc/self/fd"), num_files);
  group->Abort("enough");
  EXPECT_THROW(group->Barrier()->Wait(), CollectiveError);
}

TEST(InitTest, MissingRanksAreNamed) {
  const auto store = std::make_shared<HashStore>();
  EXPECT_THAT(
      MessageOfInit<TimeoutError>({.rank = 0, .world_size = 3, .store = store, .timeout = 50ms}),
      HasSubstr("rank 0: joining the group failed: 1 of 3 ranks joined within 0.05 s; "
                "missing: ranks 1, 2"));
}

TEST(InitTest, RanksMustAgreeOnTheWorldsSize) {
  // Nobody waits for rank 2, which the larger world would need.
  RunRanks(2, [](TestRank& rank) {
    const int world_size = rank.rank() == 0 ? 2 : 3;
    const std::string message = MessageOfInit<MismatchError>(
        {.rank = rank.rank(), .world_size = world_size, .store = rank.store()});
    EXPECT_THAT(message, HasSubstr("rank 0 joined a world of 2, rank 1 one of 3"));
  });
}

TEST(InitTest, RanksMustAgreeOnTheBackend) {
  RunRanks(3, [](TestRank& rank) {
    const std::string message =
        MessageOfInit<MismatchError>({.backend = rank.rank() == 2 ? "gloo" : "shm",
                                      .rank = rank.rank(),
                                      .world_size = 3,
                                      .store = rank.store()});
    EXPECT_THAT(message, HasSubstr("rank 0 asked for backend 'shm', rank 2 for 'gloo'"));
  });
}

TEST(InitTest, WorksOverEveryStore) {
  const std::string path = testing::TempDir() + "/store";
  std::remove(path.c_str());
  TcpStoreServer server;
  RunRanks(3, [&](TestRank& rank) {
    const auto tcp = std::make_shared<TcpStore>("127.0.0.1", server.port());
    ExpectSumOfRanks(*rank.Join({.store = tcp}));
    ExpectSumOfRanks(*rank.Join({.store = std::make_shared<PrefixStore>("one/", tcp)}));
    const auto file = std::make_shared<FileStore>(path, FileStoreOptions{.run_id = "test"});
    ExpectSumOfRanks(*rank.Join({.store = file}));
  });
}

TEST(InitTest, ANamedInterfaceIsUsed) {
  RunRanks(2, [](TestRank& rank) {
    ExpectSumOfRanks(*rank.Join({.backend = "gloo", .interface = "lo"}));
  });
  RunRanks(2, [](TestRank& rank) {
    EXPECT_THAT(MessageOfInit<std::invalid_argument>({.backend = "gloo",
                                                      .rank = rank.rank(),
                                                      .world_size = 2,
                                                      .store = rank.store(),
                                                      .interface = "nowhere0"}),
                AllOf(HasSubstr("no network interface 'nowhere0'"), HasSubstr("lo")));
  });
}

TEST(InitTest, ARankThatCannotListenTellsItsPeers) {
  RunRanks(3, [](TestRank& rank) {
    ProcessGroupOptions options = {
        .backend = "gloo", .rank = rank.rank(), .world_size = 3, .store = rank.store()};
    if (rank.rank() == 1) {
      options.interface = "nowhere0";
      EXPECT_THAT(MessageOfInit<std::invalid_argument>(options), HasSubstr("'nowhere0'"));
    } else {
      EXPECT_THAT(MessageOfInit<PeerLostError>(options),
                  AllOf(HasSubstr("joining the group failed"),
                        HasSubstr("lost rank 1: no network interface 'nowhere0'")));
    }
  });
}

TEST(InitTest, SeveralGroupsOverOneStore) {
  RunRanks(2, [](TestRank& rank) {
    const auto first = rank.Join();
    const auto second = rank.Join({.store = std::make_shared<PrefixStore>("b/", rank.store())});
    const auto third = rank.Join();
    for (int i = 0; i < 3; ++i) {
      for (ProcessGroup* group : {first.get(), second.get(), third.get()}) ExpectSumOfRanks(*group);
    }
    // One that ends doesn't disturb the others.
    second->Abort("no longer needed");
    ExpectSumOfRanks(*first);
    ExpectSumOfRanks(*third);
  });
}

TEST(InitTest, GroupsUsedInDifferentOrderDoNotDeadlock) {
  RunRanks(2, [](TestRank& rank) {
    const auto a = rank.Join();
    const auto b = rank.Join();
    ProcessGroup& first = rank.rank() == 0 ? *a : *b;
    ProcessGroup& second = rank.rank() == 0 ? *b : *a;
    const auto one = first.Barrier();
    const auto two = second.Barrier();
    one->Wait();
    two->Wait();
  });
}

class CyclesTest : public testing::TestWithParam<TestSetting> {};

INSTANTIATE_TEST_SUITE_P(All, CyclesTest,
                         testing::Values(TestSetting{"shm", 2}, TestSetting{"gloo", 2},
                                         TestSetting{"auto", 3, 2}),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(CyclesTest, LeaveNothingBehind) {
  const int size = GetParam().num_ranks;
  TcpStoreServer server;
  RunRanks(size, [&](TestRank& rank) {
    const auto store = std::make_shared<TcpStore>("127.0.0.1", server.port());
    const auto cycle = [&](int i) {
      rank.Note(fmt::format("cycle {}", i));
      const auto group = rank.Join(GetParam(), {.store = store});
      const ops::Memory memory = group->Allocate(1 << 16, ops::Device::Cpu());
      group->AllReduce({memory.get(), 1 << 14}, ReduceOp::kMax)->Wait();
      ExpectSumOfRanks(*group);
    };
    const auto count = [&](const std::string& when) {
      // All have ended their groups when one counts, none has begun a new one.
      const auto meet = [&](const std::string& where) {
        store->Set(fmt::format("{}/{}/{}", when, where, rank.rank()), "");
        for (int r = 0; r < size; ++r) store->Wait({fmt::format("{}/{}/{}", when, where, r)});
      };
      meet("come");
      // One counts: reading a folder opens a descriptor that the other would see.
      const int entries =
          rank.rank() != 0 ? 0
                           : CountEntries("/proc/self/fd") + 1000 * CountEntries("/proc/self/task");
      meet("counted");
      return entries;
    };
    for (int i = 0; i < 3; ++i) cycle(i);
    const int before = count("before");
    for (int i = 0; i < 200; ++i) cycle(i);
    EXPECT_EQ(count("after"), before);
  });
}

}  // namespace
}  // namespace ddp
