// The backend by itself, with ranks as threads: operations that are posted ahead, messages, and
// what goes wrong between ranks.
#include "ddp/collectives/shm/shm_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ddp/collectives/shm/test_buffer.h"
#include "ddp/collectives/shm/testing.h"
#include "ddp/errors.h"
#include "ddp/store/hash_store.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using shm::Place;
using shm::RunRanks;
using shm::SumOf;
using shm::TestBuffer;
using shm::TestRank;
using shm::ValueOf;

using Kind = OperationKind;

TEST(Post, RunsAheadOfThePeers) {
  RunRanks(3, [](TestRank& rank) {
    constexpr int kOperations = 8;
    int num_posted_in_all = 0;
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<float> values(kOperations);
      std::vector<Operation> operations;
      std::vector<Call> calls;
      for (int i = 0; i < kOperations; ++i) {
        values[i] = ValueOf(rank.rank(), repeat + i);
        const Buffer buffer{&values[i], 1};
        operations.push_back({.kind = Kind::kAllReduce, .input = buffer, .output = buffer});
        calls.push_back(rank.NextCall(operations.back()));
      }
      // Slower ranks haven't taken the last round's yet: then there is no slot.
      int num_posted = 0;
      while (num_posted < kOperations &&
             rank.backend().Post(operations[num_posted], calls[num_posted])) {
        ++num_posted;
      }
      num_posted_in_all += num_posted;
      for (int i = 0; i < kOperations; ++i) {
        rank.backend().Run(operations[i], calls[i], DeadlineAfter(1min));
        EXPECT_EQ(values[i], SumOf(3, repeat + i));
      }
    }
    EXPECT_GT(num_posted_in_all, 0);
  });
}

TEST(Post, LeavesLargeOperationsToRun) {
  RunRanks(2, [](TestRank& rank) {
    std::vector<float> values(1 << 20);
    const Buffer buffer{values.data(), 1 << 20};
    const Operation operation{.kind = Kind::kAllReduce, .input = buffer, .output = buffer};
    EXPECT_FALSE(rank.backend().Post(operation, rank.NextCall(operation)));
  });
}

// Both sides of a disagreement are named, on every rank and at once.
TEST(Disagreements, AreToldToAllRanks) {
  float floats[40'000] = {};
  int32_t ints[40'000] = {};
  const auto all_reduce = [](const Buffer& buffer, ReduceOp op = ReduceOp::kSum) {
    return Operation{.kind = Kind::kAllReduce, .input = buffer, .output = buffer, .reduction = op};
  };
  const auto broadcast = [](const Buffer& buffer, int root) {
    return Operation{.kind = Kind::kBroadcast, .output = buffer, .root = root};
  };
  const Buffer small{floats, 4}, large{floats, 40'000};
  struct Case {
    Operation of_rank_0, of_others;
    std::string text_0, text_others;
  };
  const std::vector<Case> cases = {
      {all_reduce(small), all_reduce({ints, 4, ops::DType::kInt32}), "float32[4]", "int32[4]"},
      {all_reduce(small), all_reduce({floats, 6}), "float32[4]", "float32[6]"},
      {all_reduce(small), all_reduce(small, ReduceOp::kMax), "sum", "max"},
      {all_reduce(small), broadcast(small, 0), "all_reduce", "broadcast"},
      {all_reduce(small), all_reduce(large), "float32[4]", "float32[40000]"},
      {all_reduce(large), broadcast(large, 0), "all_reduce", "broadcast"},
      {broadcast(large, 0), broadcast(large, 1), "from rank 0", "from rank 1"},
      {{.kind = Kind::kBarrier}, all_reduce(large), "barrier", "all_reduce"},
  };
  for (const Case& test : cases) {
    RunRanks(3, [&](TestRank& rank) {
      const auto start = Clock::now();
      try {
        rank.Run(rank.rank() == 0 ? test.of_rank_0 : test.of_others);
        FAIL() << "nobody noticed";
      } catch (const Disagreement& error) {
        EXPECT_NE(error.peer(), rank.rank());
        EXPECT_THAT(error.what(), testing::HasSubstr(test.text_0));
        EXPECT_THAT(error.what(), testing::HasSubstr(test.text_others));
      }
      EXPECT_LT(Clock::now() - start, 10s);
    });
  }
}

TEST(Disagreements, IncludeTheCountsOfAnAllToAll) {
  RunRanks(3, [&](TestRank& rank) {
    std::vector<float> input(30), output(30);
    Operation operation{.kind = Kind::kAllToAll,
                        .input = {input.data(), 30},
                        .output = {output.data(), 30},
                        .input_counts = {10, 10, 10},
                        .output_counts = {10, 10, 10}};
    if (rank.rank() == 1) operation.output_counts = {10, 10, 7}, operation.output.num_elements = 27;
    try {
      rank.Run(operation);
      FAIL() << "nobody noticed";
    } catch (const Disagreement& error) {
      EXPECT_STREQ(error.what(), "rank 2 gives 10 elements to rank 1, which takes 7");
    }
  });
}

TEST(Exchange, PassesMessagesAround) {
  for (const int64_t num_elements : {0, 1, 1000, 300'000}) {
    RunRanks(4, [&](TestRank& rank) {
      const int next = (rank.rank() + 1) % 4, previous = (rank.rank() + 3) % 4;
      TestBuffer sent(rank, Place::kOwn, ops::DType::kInt32, num_elements);
      TestBuffer received(rank, Place::kOwn, ops::DType::kInt32, num_elements);
      sent.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
      for (int repeat = 0; repeat < 3; ++repeat) {
        rank.Exchange({{.kind = Kind::kSend, .input = sent.buffer(), .root = next},
                       {.kind = Kind::kReceive, .output = received.buffer(), .root = previous}});
        received.Expect([&](int64_t i) { return ValueOf(previous, i); }, "received");
      }
    });
  }
}

TEST(Exchange, KeepsTheOrderBetweenTwoRanks) {
  RunRanks(2, [&](TestRank& rank) {
    std::vector<std::vector<float>> messages;
    std::vector<Operation> operations;
    for (int i = 0; i < 20; ++i) {
      messages.emplace_back(i * 5000, rank.rank() == 0 ? i : -1);
      const Buffer buffer{messages.back().data(), i * 5000};
      operations.push_back(rank.rank() == 0
                               ? Operation{.kind = Kind::kSend, .input = buffer, .root = 1}
                               : Operation{.kind = Kind::kReceive, .output = buffer, .root = 0});
    }
    rank.Exchange(operations);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(messages[i], std::vector<float>(i * 5000, i));
  });
}

TEST(Exchange, FindsAnotherSizeOrDType) {
  for (const Buffer& other : {Buffer{nullptr, 5}, Buffer{nullptr, 4, ops::DType::kInt32}}) {
    RunRanks(2, [&](TestRank& rank) {
      std::vector<float> values(8);
      if (rank.rank() == 0) {
        Buffer buffer = other;
        buffer.data = values.data();
        return rank.Exchange({{.kind = Kind::kSend, .input = buffer, .root = 1}});
      }
      const Buffer mine{values.data(), 4};
      try {
        rank.Exchange({{.kind = Kind::kReceive, .output = mine, .root = 0}});
        FAIL() << "nobody noticed";
      } catch (const Disagreement& error) {
        EXPECT_EQ(error.peer(), 0);
        EXPECT_THAT(error.what(), testing::HasSubstr("float32[4]"));
        EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("{}[{}]", ops::Name(other.dtype),
                                                                 other.num_elements)));
      }
    });
  }
}

// Even while letters move: these are many.
TEST(Exchange, EndsAtTheDeadline) {
  RunRanks(2, [](TestRank& rank) {
    std::vector<float> values(8 << 20);
    const Buffer buffer{values.data(), 8 << 20};
    if (rank.rank() == 0) {
      try {
        rank.Exchange({{.kind = Kind::kSend, .input = buffer, .root = 1}}, 0s);
        ADD_FAILURE() << "sent it all";
      } catch (const PeerTrouble& trouble) {
        EXPECT_EQ(trouble.kind(), PeerTrouble::kTimedOut);
        EXPECT_EQ(trouble.ranks(), std::vector{1});
      }
      return rank.Leave();
    }
    EXPECT_THROW(rank.Exchange({{.kind = Kind::kReceive, .output = buffer, .root = 0}}),
                 PeerTrouble);
  });
}

// Small and large operations, on memory of the rank's own and of the backend's.
struct AllReduce {
  Place place;
  int64_t num_elements;
};
constexpr AllReduce kAllReduces[] = {
    {Place::kOwn, 1}, {Place::kOwn, 1 << 20}, {Place::kAllocated, 1 << 20}};

// Runs one that must fail, no sooner than `at_least` after its start.
void ExpectTrouble(TestRank& rank, const AllReduce& all_reduce, Duration timeout,
                   PeerTrouble::Kind kind, const std::vector<int>& ranks, Duration at_least) {
  TestBuffer buffer(rank, all_reduce.place, ops::DType::kFloat32, all_reduce.num_elements);
  rank.AwaitOthers();
  const auto start = Clock::now();
  try {
    rank.Run({.kind = Kind::kAllReduce, .input = buffer.buffer(), .output = buffer.buffer()},
             timeout);
    ADD_FAILURE() << "nobody was missed";
  } catch (const PeerTrouble& trouble) {
    EXPECT_EQ(trouble.kind(), kind);
    EXPECT_EQ(trouble.ranks(), ranks);
  }
  EXPECT_GE(Clock::now() - start, at_least);
  EXPECT_LT(Clock::now() - start, 10s);  // it didn't hang
}

TEST(Waits, EndAtTheDeadlineAndNameWhoIsMissing) {
  for (const AllReduce& all_reduce : kAllReduces) {
    RunRanks(4, [&](TestRank& rank) {
      if (rank.rank() % 2 == 0) {
        ExpectTrouble(rank, all_reduce, 1s, PeerTrouble::kTimedOut, {1, 3}, 1s);
      } else {
        rank.AwaitOthers();
      }
      rank.AwaitOthers();
    });
  }
}

TEST(Waits, EndWhenAPeerCloses) {
  for (const AllReduce& all_reduce : kAllReduces) {
    RunRanks(3, [&](TestRank& rank) {
      if (rank.rank() != 1) {
        return ExpectTrouble(rank, all_reduce, 1min, PeerTrouble::kLost, {1}, 0s);
      }
      rank.AwaitOthers();
      std::this_thread::sleep_for(20ms);  // the others may be asleep by now
      rank.backend().Stop();
      rank.backend().Close();
    });
  }
}

TEST(Waits, EndWithStop) {
  RunRanks(2, [](TestRank& rank) {
    if (rank.rank() == 1) return rank.AwaitOthers();
    std::thread stopper([&] {
      std::this_thread::sleep_for(20ms);
      rank.backend().Stop();
    });
    float value = 0;
    const Buffer buffer{&value, 1};
    EXPECT_THROW(rank.Run({.kind = Kind::kAllReduce, .input = buffer, .output = buffer}), Stopped);
    EXPECT_THROW(rank.Run({.kind = Kind::kBarrier}), Stopped);
    EXPECT_THROW(rank.Exchange({{.kind = Kind::kSend, .input = buffer, .root = 1}}), Stopped);
    stopper.join();
    rank.AwaitOthers();
  });
}

// What a rank did before it left still counts.
TEST(Waits, AreNotDisturbedByThoseWhoCameBefore) {
  RunRanks(3, [](TestRank& rank) {
    float value = 1;
    const Buffer buffer{&value, 1};
    const Operation all_reduce{.kind = Kind::kAllReduce, .input = buffer, .output = buffer};
    if (rank.rank() == 2) std::this_thread::sleep_for(150ms);
    if (rank.rank() == 0) {
      // Posts its part, and is gone.
      rank.backend().Post(all_reduce, rank.NextCall(all_reduce));
      return rank.Leave();
    }
    rank.Run(all_reduce);
    EXPECT_EQ(value, 3);
  });
}

int NumEntries(const char* directory) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

TEST(Memory, OutlivesTheBackend) {
  RunRanks(2, [](TestRank& rank) {
    const ops::Memory memory = rank.backend().Allocate(1 << 20);
    rank.Leave();
    memory.get()[(1 << 20) - 1] = std::byte{1};
  });
}

TEST(Memory, IsGivenBack) {
  RunRanks(2, [](TestRank& rank) {
    for (int repeat = 0; repeat < 100; ++repeat) {
      TestBuffer buffer(rank, Place::kAllocated, ops::DType::kFloat32, 50'000 + repeat);
      buffer.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
      rank.Run({.kind = Kind::kAllReduce, .input = buffer.buffer(), .output = buffer.buffer()});
      buffer.Expect([&](int64_t i) { return SumOf(2, i); }, "sum");
    }
    EXPECT_LT(NumEntries("/proc/self/fd"), 40);
  });
}

TEST(Groups, LeaveNothingBehind) {
  const int num_descriptors = NumEntries("/proc/self/fd");
  const int num_threads = NumEntries("/proc/self/task");
  for (int repeat = 0; repeat < 100; ++repeat) {
    RunRanks(2, [](TestRank& rank) {
      TestBuffer buffer(rank, Place::kAllocated, ops::DType::kFloat32, 10'000);
      rank.Run({.kind = Kind::kAllReduce, .input = buffer.buffer(), .output = buffer.buffer()});
    });
  }
  EXPECT_EQ(NumEntries("/proc/self/fd"), num_descriptors);
  EXPECT_EQ(NumEntries("/proc/self/task"), num_threads);
}

TEST(Groups, MayBeLarge) {
  const auto start = Clock::now();
  RunRanks(200, [](TestRank& rank) {
    TestBuffer buffer(rank, Place::kOwn, ops::DType::kFloat32, 10'000);
    buffer.Fill([&](int64_t) { return 1; });
    rank.Run({.kind = Kind::kAllReduce, .input = buffer.buffer(), .output = buffer.buffer()});
    buffer.Expect([](int64_t) { return 200; }, "sum");
  });
  EXPECT_LT(Clock::now() - start, 10s);
}

// While it exists, this process can't open any file.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST(Make, RefusesRanksOfTwoHosts) {
  Meeting meeting;
  meeting.options.world_size = 2;
  meeting.members.resize(2);
  meeting.members[1].host = "elsewhere";
  try {
    MakeShmBackend(meeting);
    FAIL() << "made one";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "backend 'shm' is for ranks of one host, but rank 0 and rank 1 are on two; "
                 "'auto' or 'gloo' would work");
  }
}

// All learn at once what kept rank 0 from it.
TEST(Make, FailsOnAllRanksWhereRank0HasNoMemory) {
  const auto store = std::make_shared<HashStore>();
  const auto start = Clock::now();
  {
    const NoMoreDescriptors no_more_descriptors;
    EXPECT_THROW(MakeShmBackend(shm::MakeMeeting(store, 0, 2)), std::system_error);
  }
  try {
    MakeShmBackend(shm::MakeMeeting(store, 1, 2));
    FAIL() << "made one";
  } catch (const PeerLostError& error) {
    EXPECT_EQ(error.peer(), 0);
    EXPECT_STREQ(error.what(),
                 "lost rank 0: it couldn't set up the shared memory: can't create shared memory: "
                 "Too many open files");
  }
  EXPECT_LT(Clock::now() - start, 10s);
}

}  // namespace
}  // namespace ddp
