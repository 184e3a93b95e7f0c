// What goes wrong between ranks: every rank is told, at once and why, and nothing hangs or aborts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/testing.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using ops::DType;
using testing::AllOf;
using testing::HasSubstr;

template <class Error>
std::string MessageOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return fmt::format("another error: {}", error.what());
  }
  return "no error";
}

// Memory for anything that a test sends.
class Memory {
 public:
  Buffer Of(int64_t num_elements, DType dtype = DType::kFloat32) {
    bytes_.resize(std::max<size_t>(bytes_.size(), num_elements * 8));
    return {bytes_.data(), num_elements, dtype};
  }

 private:
  std::vector<std::byte> bytes_;
};

using Issue = std::function<std::shared_ptr<Work>(ProcessGroup& group, Memory& memory)>;

Issue Reduces(int64_t num_elements, DType dtype = DType::kFloat32, ReduceOp op = ReduceOp::kSum) {
  return [=](ProcessGroup& group, Memory& memory) {
    return group.AllReduce(memory.Of(num_elements, dtype), op);
  };
}

Issue Broadcasts(int64_t num_elements, int root) {
  return [=](ProcessGroup& group, Memory& memory) {
    return group.Broadcast(memory.Of(num_elements), root);
  };
}

Issue Gathers(int64_t num_elements) {
  return [=](ProcessGroup& group, Memory& memory) {
    const Buffer output = memory.Of(num_elements * group.size());
    return group.AllGather({output.data, num_elements}, output);
  };
}

Issue Waits() {
  return [](ProcessGroup& group, Memory&) { return group.Barrier(); };
}

Issue GathersUneven(ProcessGroup::Counts counts) {
  return [=](ProcessGroup& group, Memory& memory) {
    ProcessGroup::Counts for_all = counts;
    for_all.resize(group.size(), 1);
    const int64_t total = std::accumulate(for_all.begin(), for_all.end(), int64_t{0});
    const Buffer output = memory.Of(total);
    return group.AllGather({output.data, for_all[group.rank()]}, output, for_all);
  };
}

Issue ScattersSums(int64_t num_elements) {
  return [=](ProcessGroup& group, Memory& memory) {
    const Buffer input = memory.Of(num_elements * group.size());
    return group.ReduceScatter(input, {input.data, num_elements}, ReduceOp::kSum);
  };
}

Issue Averages(int64_t num_elements) {
  return Reduces(num_elements, DType::kFloat32, ReduceOp::kAverage);
}

// To rank 0, from it.
Issue ReducesTo(int64_t num_elements, int root) {
  return [=](ProcessGroup& group, Memory& memory) {
    const Buffer buffer = memory.Of(num_elements);
    return group.Reduce(buffer, buffer, ReduceOp::kSum, root);
  };
}

struct Mismatch {
  std::string name;
  Issue of_rank_0;
  Issue of_others;
  std::vector<std::string> named;  // what every rank's message has
};

class MismatchTest : public testing::TestWithParam<std::tuple<TestSetting, Mismatch>> {};

TEST_P(MismatchTest, IsAnErrorOnEveryRank) {
  const auto& [setting, mismatch] = GetParam();
  {
    RunRanks(setting.num_ranks, [&](TestRank& rank) {
      const auto group = rank.Join(setting);
      Memory memory;
      const auto work = rank.rank() == 0 ? mismatch.of_rank_0(*group, memory)
                                         : mismatch.of_others(*group, memory);
      const std::string message = MessageOf<MismatchError>([&] { work->Wait(); });
      EXPECT_THAT(message, HasSubstr("rank 0 called "));
      for (const std::string& name : mismatch.named) EXPECT_THAT(message, HasSubstr(name));
      // Again for each wait, and for each operation after it.
      EXPECT_EQ(MessageOf<MismatchError>([&] { work->Wait(); }), message);
      EXPECT_THAT(MessageOf<MismatchError>([&] { group->Barrier()->Wait(); }),
                  AllOf(HasSubstr("barrier #2"), HasSubstr(mismatch.named[0])));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MismatchTest,
    testing::Combine(
        testing::ValuesIn(AllSettings({2, 3, 4})),
        testing::Values(
            Mismatch{"Size", Reduces(4), Reduces(6), {"float32[4]", "float32[6]"}},
            Mismatch{"LargeSize", Reduces(400'000), Reduces(600'000), {"[400000]", "[600000]"}},
            Mismatch{"SmallAndLarge", Reduces(4), Reduces(600'000), {"[4]", "[600000]"}},
            Mismatch{"DType", Reduces(4), Reduces(4, DType::kInt32), {"float32[4]", "int32[4]"}},
            Mismatch{"LargeDType",
                     Reduces(400'000),
                     Reduces(400'000, DType::kFloat64),
                     {"float32[", "float64["}},
            Mismatch{"ReduceOp",
                     Reduces(4),
                     Reduces(4, DType::kFloat32, ReduceOp::kMax),
                     {"sum", "max"}},
            Mismatch{"Operation",
                     Reduces(4),
                     Broadcasts(4, 0),
                     {"all_reduce #1 (float32[4], sum)", "broadcast #1 (float32[4], from rank 0)"}},
            Mismatch{"Root", Broadcasts(4, 0), Broadcasts(4, 1), {"from rank 0", "from rank 1"}},
            Mismatch{"GatherSize", Gathers(40'000), Gathers(50'000), {"[40000]", "[50000]"}},
            Mismatch{"Counts", GathersUneven({2, 3}), GathersUneven({3, 2}), {"all_gather #1"}},
            Mismatch{
                "ReduceScatter", ScattersSums(6), ScattersSums(7), {"float32[6]", "float32[7]"}},
            Mismatch{"Average", Averages(4), Reduces(4), {"average", "sum"}},
            Mismatch{"ReduceRoot", ReducesTo(4, 0), ReducesTo(4, 1), {"to rank 0", "to rank 1"}},
            Mismatch{"Barrier", Waits(), Gathers(3), {"barrier #1", "all_gather #1"}})),
    [](const auto& info) {
      return std::get<TestSetting>(info.param).Name() + std::get<Mismatch>(info.param).name;
    });

class FailuresTest : public testing::TestWithParam<TestSetting> {
 protected:
  int size() const { return GetParam().num_ranks; }
};

INSTANTIATE_TEST_SUITE_P(All, FailuresTest, testing::ValuesIn(AllSettings({3})),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(FailuresTest, ARankThatLeavesIsNamed) {
  RunRanks(size(), [&](TestRank& rank) {
    auto group = rank.Join(GetParam());
    Memory memory;
    group->Barrier()->Wait();
    if (rank.rank() == 1) return;
    const auto work = group->AllReduce(memory.Of(500'000), ReduceOp::kSum);
    EXPECT_THAT(
        MessageOf<PeerLostError>([&] { work->Wait(); }),
        AllOf(HasSubstr(fmt::format("rank {}: all_reduce #2 (float32[500000], sum)", rank.rank())),
              HasSubstr("lost rank 1: it has left the group")));
  });
}

TEST_P(FailuresTest, WhatWasSentBeforeLeavingArrives) {
  for (int round = 0; round < 20; ++round) {
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam());
      std::vector<float> values(100'000, 1);
      group->AllReduce({values.data(), 100'000}, ReduceOp::kSum)->Wait();
      EXPECT_THAT(values, testing::Each(3.0f));
    });
  }
}

TEST_P(FailuresTest, AnAbortInTheMiddleIsToldWithItsReason) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Memory memory;
    group->Barrier()->Wait();
    if (rank.rank() == 1) {
      group->Abort("the disk is full");
      EXPECT_THAT(MessageOf<CollectiveError>([&] { group->Barrier()->Wait(); }),
                  HasSubstr("aborted: the disk is full"));
      return;
    }
    const auto work = group->AllReduce(memory.Of(500'000), ReduceOp::kSum);
    try {
      work->Wait();
      ADD_FAILURE() << "no error";
    } catch (const PeerLostError& error) {
      EXPECT_EQ(error.peer(), 1);
      EXPECT_THAT(error.what(), HasSubstr("lost rank 1: the disk is full"));
    }
  });
}

// The rank that aborts is itself in the operation, on another thread.
TEST_P(FailuresTest, AbortInterruptsWhatIsUnderWay) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Memory memory;
    if (rank.rank() == 0) {
      const auto work = group->AllReduce(memory.Of(500'000), ReduceOp::kSum);
      std::thread other([&] { group->Abort("enough"); });
      EXPECT_THAT(MessageOf<CollectiveError>([&] { work->Wait(); }), HasSubstr("aborted: enough"));
      other.join();
    } else {
      rank.store()->Wait({"group/1/failure"});
      const auto work = group->AllReduce(memory.Of(500'000), ReduceOp::kSum);
      EXPECT_THAT(MessageOf<PeerLostError>([&] { work->Wait(); }),
                  HasSubstr("lost rank 0: enough"));
    }
  });
}

// Connections break while data is half sent, at ever other moments.
TEST_P(FailuresTest, AbortAtAnyMomentOfALargeAllReduce) {
  for (int round = 0; round < 40; ++round) {
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam());
      Memory memory;
      const Buffer buffer = memory.Of(4 << 20);
      ProcessGroup::WorkPtr work;  // it owns what it throws
      // Where this rank is slow, the abort may come before it has left the barrier.
      try {
        group->Barrier()->Wait();
        work = group->AllReduce(buffer, ReduceOp::kSum);
        if (rank.rank() == 2) {
          for (int i = 0; i < round * 20; ++i) std::this_thread::yield();
          group->Abort("sudden");
        }
        rank.Note("waiting");
        work->Wait();  // may have been through already
      } catch (const CollectiveError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sudden"));
      }
      rank.Note("waited");
    });
  }
}

TEST_P(FailuresTest, AnExceptionThatEndsAGroupEndsTheOthersToo) {
  RunRanks(size(), [&](TestRank& rank) {
    Memory memory;
    if (rank.rank() == 2) {
      EXPECT_THROW(
          {
            const auto group = rank.Join(GetParam());
            // Under way when the exception passes.
            group->AllReduce(memory.Of(5), ReduceOp::kSum);
            group->AllReduce(memory.Of(5), ReduceOp::kSum);
            throw std::runtime_error("no such file");
          },
          std::runtime_error);
      return;
    }
    const auto group = rank.Join(GetParam());
    EXPECT_THAT(MessageOf<PeerLostError>([&] {
                  for (;;) group->AllReduce(memory.Of(5), ReduceOp::kSum)->Wait();
                }),
                HasSubstr("lost rank 2: an exception ended it"));
  });
}

// One rank is slow, another gone: who waits must not wait for the slow one first.
TEST_P(FailuresTest, ALostRankIsNoticedWhileASlowOneIsAwaited) {
  std::barrier noticed(2);
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    if (rank.rank() == 1) return group->Abort("out of memory");
    if (rank.rank() == 2) {
      EXPECT_THAT(MessageOf<PeerLostError>([&] { group->Barrier()->Wait(); }),
                  HasSubstr("lost rank 1: out of memory"));
    }
    noticed.arrive_and_wait();
  });
}

// Of the group, and of one operation.
TEST_P(FailuresTest, TimeoutsSayWhoIsWaitedFor) {
  // Ranks of other hosts are waited for by their leaders.
  const std::string waited_for = GetParam().num_hosts == 1 ? "ranks 1, 2" : "rank";
  for (const bool per_operation : {false, true}) {
    std::barrier waited(3);
    RunRanks(size(), [&](TestRank& rank) {
      const bool short_of_time = rank.rank() == 0 && !per_operation;
      const auto group = rank.Join(GetParam(), {.timeout = short_of_time ? 300ms : 60s});
      if (rank.rank() == 0) {
        const auto start = Clock::now();
        const auto work = per_operation ? group->Barrier(300ms) : group->Barrier();
        EXPECT_THAT(MessageOf<TimeoutError>([&] { work->Wait(); }),
                    AllOf(HasSubstr("rank 0: barrier #1 failed after 0.3"),
                          HasSubstr("rank 0 waited 0.3 s for " + waited_for)));
        EXPECT_GE(Clock::now() - start, 300ms);
      }
      waited.arrive_and_wait();
      // Rank 0 may have done its part of the first before it gave up.
      const std::string message = MessageOf<TimeoutError>([&] {
        group->Barrier()->Wait();
        group->Barrier()->Wait();
      });
      EXPECT_THAT(message, HasSubstr("rank 0 waited 0.3 s for " + waited_for));
    });
  }
}

// Whom the others wait for directly is another question: messages travel by way of other ranks.
class AbsenceTest : public testing::TestWithParam<TestSetting> {
 protected:
  // A tenth of it is enough for answers of ranks on a busy machine.
  static constexpr Duration kLongEnough = 4s;

  int size() const { return GetParam().num_ranks; }
  // `issue` on all ranks but `absent`, which knows nothing of it. Returns what they are told.
  std::vector<std::string> WithoutRank(int absent, const Issue& issue,
                                       const std::function<Duration(int rank)>& timeout) {
    std::barrier over(size());
    std::vector<std::string> messages(size());
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam(), {.timeout = timeout(rank.rank())});
      Memory memory;
      group->Barrier()->Wait();
      if (rank.rank() != absent) {
        const auto work = issue(*group, memory);
        messages[rank.rank()] = MessageOf<TimeoutError>([&] {
          work->Wait();
          group->Barrier()->Wait();
        });
      }
      over.arrive_and_wait();
    });
    messages.erase(messages.begin() + absent);
    return messages;
  }
};

INSTANTIATE_TEST_SUITE_P(All, AbsenceTest,
                         testing::Values(TestSetting{"shm", 4}, TestSetting{"gloo", 4},
                                         TestSetting{"auto", 4, 2}, TestSetting{"gloo", 12},
                                         TestSetting{"auto", 12, 3}),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(AbsenceTest, EveryRankNamesTheOneThatIsAbsent) {
  for (const auto& [absent, num_elements] :
       {std::pair(0, 500'000), std::pair(1, 5), std::pair(size() - 1, 500'000)}) {
    EXPECT_THAT(WithoutRank(absent, Reduces(num_elements), [](int) { return kLongEnough; }),
                testing::Each(testing::EndsWith(fmt::format(" waited 4 s for rank {}", absent))));
  }
}

// Who still has time answers for itself all the same.
TEST_P(AbsenceTest, AlsoWhereOneRankIsShortOfTime) {
  const int impatient = size() - 1;
  EXPECT_THAT(
      WithoutRank(1, Reduces(5'000),
                  [&](int rank) { return rank == impatient ? kLongEnough : 60s; }),
      testing::Each(testing::EndsWith(fmt::format("rank {} waited 4 s for rank 1", impatient))));
}

TEST_P(AbsenceTest, RanksThatWaitForEachOtherAreThere) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Memory memory;
    // Each for the next one, the last one for the first.
    const auto work = group->Receive(memory.Of(5), (rank.rank() + 1) % size(),
                                     rank.rank() == 0 ? kLongEnough : 60s);
    EXPECT_THAT(MessageOf<TimeoutError>([&] { work->Wait(); }),
                testing::EndsWith("rank 0 waited 4 s for rank 1, in an operation too"));
  });
}

// A chain of receives, each of which waits for what its sender waits for.
TEST_P(AbsenceTest, AMessageIsAwaitedFromItsSender) {
  std::barrier over(size());
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Memory memory;
    if (rank.rank() >= 1) {
      const auto work =
          group->Receive(memory.Of(5), rank.rank() - 1, rank.rank() == 3 ? kLongEnough : 60s);
      EXPECT_THAT(MessageOf<TimeoutError>([&] { work->Wait(); }),
                  testing::EndsWith(
                      "rank 3 waited 4 s for rank 2, in an operation too; rank 0 not in any"));
    }
    over.arrive_and_wait();
  });
}

TEST_P(FailuresTest, AMonitoredBarrierNamesWhoIsMissingOnEveryRank) {
  std::barrier over(3);
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    if (rank.rank() != 1) {
      EXPECT_THAT(MessageOf<TimeoutError>([&] { group->MonitoredBarrier(200ms); }),
                  HasSubstr("monitored_barrier #1 failed: rank 1 didn't come within 0.2 s"));
      EXPECT_THROW(group->Barrier()->Wait(), TimeoutError);
    }
    over.arrive_and_wait();
  });
}

TEST_P(FailuresTest, MessagesOfAnotherSizeOrTypeAreErrors) {
  for (const bool other_size : {true, false}) {
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam());
      Memory memory;
      if (rank.rank() == 2) {
        EXPECT_THROW(group->Barrier()->Wait(), MismatchError);
        return;
      }
      const auto work =
          rank.rank() == 0
              ? group->Send(memory.Of(4), 1)
              : group->Receive(other_size ? memory.Of(6) : memory.Of(4, DType::kInt32), 0);
      // A send may be over before the receiver looks.
      const std::string message = MessageOf<MismatchError>([&] {
        work->Wait();
        group->Barrier()->Wait();
      });
      EXPECT_THAT(message, AllOf(HasSubstr("float32[4]"),
                                 HasSubstr(other_size ? "float32[6]" : "int32[4]")));
    });
  }
}

TEST_P(FailuresTest, WorkOfAFailedGroupMayOutliveIt) {
  RunRanks(size(), [&](TestRank& rank) {
    Memory memory;
    std::vector<std::shared_ptr<Work>> works;
    {
      const auto group = rank.Join(GetParam());
      for (int i = 0; i < 10; ++i) works.push_back(Reduces(1000 + rank.rank())(*group, memory));
    }
    for (const auto& work : works) EXPECT_THROW(work->Wait(), MismatchError);
  });
}

TEST_P(FailuresTest, BadArgumentsThrowAtOnceAndHurtNobody) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    std::vector<float> values(4, 1);
    const Buffer buffer{values.data(), 4};
    const Buffer on_gpu{values.data(), 4, DType::kFloat32, ops::Device::Cuda()};
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] { group->Broadcast(buffer, 3); }),
                HasSubstr("root 3 is not one of the ranks 0 to 2"));
    EXPECT_THROW(group->Broadcast(buffer, -1), std::invalid_argument);
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] {
                  group->AllReduce({nullptr, 4}, ReduceOp::kSum);
                }),
                HasSubstr("null pointer for float32[4]"));
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] { group->AllReduce(on_gpu, ReduceOp::kSum); }),
                HasSubstr("CPU memory only, got float32[4] on cuda:0"));
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] { group->AllGather(buffer, buffer); }),
                HasSubstr("need an output float32[12], got float32[4]"));
    const auto refused = [&](const std::function<void()>& issue) {
      return MessageOf<std::invalid_argument>(issue);
    };
    std::vector<int32_t> integers(4, 1);
    const Buffer ints{integers.data(), 4, DType::kInt32};
    EXPECT_THAT(refused([&] { group->AllReduce(buffer, ReduceOp::kBitAnd); }),
                HasSubstr("bit_and is for integers, got float32[4]; sum, average"));
    EXPECT_THAT(refused([&] { group->AllReduce(ints, PremultipliedSum(0.5)); }),
                HasSubstr("premultiplied_sum is for floating point, got int32[4]"));
    EXPECT_THAT(refused([&] { group->AllReduce(buffer, ints, ReduceOp::kSum); }),
                HasSubstr("input float32[4] and output int32[4] differ"));
    EXPECT_THAT(refused([&] { group->ReduceScatter(buffer, buffer, ReduceOp::kSum); }),
                HasSubstr("need an input float32[12], got float32[4]"));
    EXPECT_THAT(refused([&] {
                  group->AllGather(buffer, buffer, {1, 2});
                }),
                HasSubstr("2 counts for 3 ranks"));
    EXPECT_THAT(refused([&] { group->AllToAll(buffer, buffer); }),
                HasSubstr("float32[4] can't be cut into 3 even blocks"));
    EXPECT_THAT(refused([&] { group->Send(buffer, rank.rank()); }), HasSubstr("this rank itself"));
    EXPECT_THAT(refused([&] { group->Receive(buffer, 3); }),
                HasSubstr("peer 3 is not one of the ranks 0 to 2"));
    group->AllReduce(buffer, ReduceOp::kSum)->Wait();
    EXPECT_THAT(values, testing::Each(3.0f));
  });
}

}  // namespace
}  // namespace ddp
