// What goes wrong between ranks: every rank is told, at once and why, and nothing hangs or aborts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <thread>
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

struct Mismatch {
  std::string name;
  Issue of_rank_0;
  Issue of_others;
  std::vector<std::string> named;  // what every rank's message has
};

class MismatchTest : public testing::TestWithParam<Mismatch> {};

TEST_P(MismatchTest, IsAnErrorOnEveryRank) {
  const Mismatch& mismatch = GetParam();
  for (const int size : {2, 3}) {
    RunRanks(size, [&](TestRank& rank) {
      const auto group = rank.Join();
      Memory memory;
      const auto work = rank.rank() == 0 ? mismatch.of_rank_0(*group, memory)
                                         : mismatch.of_others(*group, memory);
      const std::string message = MessageOf<MismatchError>([&] { work->Wait(); });
      EXPECT_THAT(message, HasSubstr("rank 0 "));
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
    testing::Values(
        Mismatch{"Size", Reduces(4), Reduces(6), {"float32[4]", "float32[6]"}},
        Mismatch{"LargeSize", Reduces(400'000), Reduces(600'000), {"[400000]", "[600000]"}},
        Mismatch{"SmallAndLarge", Reduces(4), Reduces(600'000), {"[4]", "[600000]"}},
        Mismatch{"DType", Reduces(4), Reduces(4, DType::kInt32), {"float32[4]", "int32[4]"}},
        Mismatch{"LargeDType",
                 Reduces(400'000),
                 Reduces(400'000, DType::kFloat64),
                 {"float32[", "float64["}},
        Mismatch{
            "ReduceOp", Reduces(4), Reduces(4, DType::kFloat32, ReduceOp::kMax), {"sum", "max"}},
        Mismatch{"Operation",
                 Reduces(4),
                 Broadcasts(4, 0),
                 {"all_reduce #1 (float32[4], sum)", "broadcast #1 (float32[4], from rank 0)"}},
        Mismatch{"Root", Broadcasts(4, 0), Broadcasts(4, 1), {"from rank 0", "from rank 1"}},
        Mismatch{"GatherSize", Gathers(40'000), Gathers(50'000), {"[40000]", "[50000]"}},
        Mismatch{"Barrier", Waits(), Gathers(3), {"barrier #1", "all_gather #1"}}),
    [](const auto& info) { return info.param.name; });

TEST(FailuresTest, ARankThatLeavesIsNamed) {
  RunRanks(3, [](TestRank& rank) {
    auto group = rank.Join();
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

TEST(FailuresTest, WhatWasSentBeforeLeavingArrives) {
  for (int round = 0; round < 20; ++round) {
    RunRanks(3, [&](TestRank& rank) {
      const auto group = rank.Join();
      std::vector<float> values(100'000, 1);
      group->AllReduce({values.data(), 100'000}, ReduceOp::kSum)->Wait();
      EXPECT_THAT(values, testing::Each(3.0f));
    });
  }
}

TEST(FailuresTest, AnAbortInTheMiddleIsToldWithItsReason) {
  RunRanks(3, [](TestRank& rank) {
    const auto group = rank.Join();
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
TEST(FailuresTest, AbortInterruptsWhatIsUnderWay) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    Memory memory;
    if (rank.rank() == 0) {
      const auto work = group->AllReduce(memory.Of(500'000), ReduceOp::kSum);
      std::thread other([&] { group->Abort("enough"); });
      EXPECT_THAT(MessageOf<CollectiveError>([&] { work->Wait(); }), HasSubstr("aborted: enough"));
      other.join();
    } else {
      rank.store()->Wait({"gloo/1/failure"});
      const auto work = group->AllReduce(memory.Of(500'000), ReduceOp::kSum);
      EXPECT_THAT(MessageOf<PeerLostError>([&] { work->Wait(); }),
                  HasSubstr("lost rank 0: enough"));
    }
  });
}

// Connections break while data is half sent, at ever other moments.
TEST(FailuresTest, AbortAtAnyMomentOfALargeAllReduce) {
  for (int round = 0; round < 40; ++round) {
    RunRanks(3, [&](TestRank& rank) {
      const auto group = rank.Join();
      Memory memory;
      const Buffer buffer = memory.Of(4 << 20);
      group->Barrier()->Wait();
      const auto work = group->AllReduce(buffer, ReduceOp::kSum);
      if (rank.rank() == 2) {
        for (int i = 0; i < round * 20; ++i) std::this_thread::yield();
        group->Abort("sudden");
      }
      rank.Note("waiting");
      try {
        work->Wait();  // may have been through already
      } catch (const CollectiveError& error) {
        EXPECT_THAT(error.what(), HasSubstr("sudden"));
      }
      rank.Note("waited");
    });
  }
}

TEST(FailuresTest, AnExceptionThatEndsAGroupEndsTheOthersToo) {
  RunRanks(3, [](TestRank& rank) {
    Memory memory;
    if (rank.rank() == 2) {
      EXPECT_THROW(
          {
            const auto group = rank.Join();
            // Under way when the exception passes; nobody else will ever call the second.
            group->AllReduce(memory.Of(5), ReduceOp::kSum);
            group->Barrier();
            throw std::runtime_error("no such file");
          },
          std::runtime_error);
      return;
    }
    const auto group = rank.Join();
    EXPECT_THAT(MessageOf<PeerLostError>([&] {
                  for (;;) group->AllReduce(memory.Of(5), ReduceOp::kSum)->Wait();
                }),
                HasSubstr("lost rank 2: an exception ended it"));
  });
}

// One rank is slow, another gone: who waits must not wait for the slow one first.
TEST(FailuresTest, ALostRankIsNoticedWhileASlowOneIsAwaited) {
  std::barrier noticed(2);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    if (rank.rank() == 1) return group->Abort("out of memory");
    if (rank.rank() == 2) {
      EXPECT_THAT(MessageOf<PeerLostError>([&] { group->Barrier()->Wait(); }),
                  HasSubstr("lost rank 1: out of memory"));
    }
    noticed.arrive_and_wait();
  });
}

TEST(FailuresTest, TimeoutsSayWhoIsWaitedFor) {
  std::barrier waited(3);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join({.timeout = rank.rank() == 0 ? 300ms : 60s});
    if (rank.rank() == 0) {
      const auto start = Clock::now();
      EXPECT_THAT(MessageOf<TimeoutError>([&] { group->Barrier()->Wait(); }),
                  AllOf(HasSubstr("rank 0: barrier #1 failed after 0.3"),
                        HasSubstr("rank 0 waited 0.3 s for ranks 1, 2")));
      EXPECT_GE(Clock::now() - start, 300ms);
    }
    waited.arrive_and_wait();
    EXPECT_THAT(MessageOf<TimeoutError>([&] { group->Barrier()->Wait(); }),
                HasSubstr("rank 0 waited 0.3 s for ranks 1, 2"));
  });
}

TEST(FailuresTest, WorkOfAFailedGroupMayOutliveIt) {
  RunRanks(2, [](TestRank& rank) {
    Memory memory;
    std::vector<std::shared_ptr<Work>> works;
    {
      const auto group = rank.Join();
      for (int i = 0; i < 10; ++i) works.push_back(Reduces(1000 + rank.rank())(*group, memory));
    }
    for (const auto& work : works) EXPECT_THROW(work->Wait(), MismatchError);
  });
}

TEST(FailuresTest, BadArgumentsThrowAtOnceAndHurtNobody) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    std::vector<float> values(4, 1);
    const Buffer buffer{values.data(), 4};
    const Buffer on_gpu{values.data(), 4, DType::kFloat32, ops::Device::Cuda()};
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] { group->Broadcast(buffer, 2); }),
                HasSubstr("root 2 is not one of the ranks 0 to 1"));
    EXPECT_THROW(group->Broadcast(buffer, -1), std::invalid_argument);
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] {
                  group->AllReduce({nullptr, 4}, ReduceOp::kSum);
                }),
                HasSubstr("null pointer for float32[4]"));
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] { group->AllReduce(on_gpu, ReduceOp::kSum); }),
                HasSubstr("CPU memory only, got float32[4] on cuda:0"));
    EXPECT_THAT(MessageOf<std::invalid_argument>([&] { group->AllGather(buffer, buffer); }),
                HasSubstr("need an output float32[8], got float32[4]"));
    group->AllReduce(buffer, ReduceOp::kSum)->Wait();
    EXPECT_THAT(values, testing::Each(2.0f));
  });
}

}  // namespace
}  // namespace ddp
