// The backend by itself, with ranks as threads: right values, and what goes wrong between ranks.
#include "ddp/collectives/shm/shm_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ddp/collectives/shm/testing.h"
#include "ddp/errors.h"
#include "ddp/store/hash_store.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using shm::RunRanks;
using shm::TestRank;

using Kind = OperationKind;
using Counts = std::vector<int64_t>;

// Where ranks have their buffers: in memory of their own, in memory from Allocate, or some here and
// some there.
enum class Place { kOwn, kAllocated, kMixed };

constexpr int64_t kCanary = 8;  // elements behind a buffer that nobody may touch

// A buffer, where `place` says.
class TestBuffer {
 public:
  TestBuffer(TestRank& rank, Place place, ops::DType dtype, int64_t num_elements) {
    const int64_t num_bytes = (num_elements + kCanary) * ops::SizeOf(dtype);
    const bool allocate =
        place == Place::kAllocated || (place == Place::kMixed && rank.rank() % 2 == 1);
    memory_ = allocate ? rank.backend().Allocate(num_bytes) : ops::AllocateMemory(num_bytes);
    buffer_ = {memory_.get(), num_elements, dtype};
    Fill([](int64_t) { return 99; }, num_elements + kCanary);
  }

  const Buffer& buffer() const { return buffer_; }

  template <class F>
  void Fill(F value) {
    Fill(value, buffer_.num_elements);
  }

  // What is behind the buffer must be as it was.
  template <class F>
  void Expect(F value, const std::string& what) const {
    ops::Dispatch(buffer_.dtype, [&]<class T>() {
      const T* const data = static_cast<const T*>(buffer_.data);
      for (int64_t i = 0; i < buffer_.num_elements + kCanary; ++i) {
        const double expected = i < buffer_.num_elements ? value(i) : 99;
        if (ToDouble(data[i]) == expected) continue;
        ADD_FAILURE() << what << ": element " << i << " of " << buffer_.num_elements << " is "
                      << ToDouble(data[i]) << ", not " << expected;
        return;
      }
    });
  }

 private:
  template <class F>
  void Fill(F value, int64_t num_elements) {
    ops::Dispatch(buffer_.dtype, [&]<class T>() {
      T* const data = static_cast<T*>(buffer_.data);
      for (int64_t i = 0; i < num_elements; ++i) data[i] = static_cast<T>(float(value(i)));
    });
  }
  template <class T>
  static double ToDouble(T value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<double>(value);
    } else {
      return static_cast<float>(value);
    }
  }

  ops::Memory memory_;
  Buffer buffer_;
};

// Small, so that sums over four ranks are exact in every dtype.
int ValueOf(int rank, int64_t i) { return static_cast<int>((rank * 7 + i * 3) % 11) + rank; }

int SumOf(int size, int64_t i) {
  int sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += ValueOf(rank, i);
  return sum;
}

// Blocks of uneven sizes, one of them empty.
Counts UnevenCounts(int size, int64_t num_elements) {
  Counts counts;
  for (int rank = 0; rank < size; ++rank) counts.push_back(rank * num_elements / 2);
  return counts;
}

int64_t Begin(const Counts& counts, int rank) {
  int64_t begin = 0;
  for (int i = 0; i < rank; ++i) begin += counts[i];
  return begin;
}

// The block that element `i` belongs to.
int BlockAt(const Counts& counts, int64_t i) {
  int block = 0;
  while (i >= counts[block]) i -= counts[block++];
  return block;
}

struct Values : testing::TestWithParam<std::tuple<int, Place>> {
  int size() const { return std::get<0>(GetParam()); }
  Place place() const { return std::get<1>(GetParam()); }

  // Calls body(rank, dtype, num_elements) for all dtypes, with sizes that fit slots, that fit one
  // round and that take several.
  template <class F>
  void ForEach(F body) {
    RunRanks(size(), [&](TestRank& rank) {
      for (const ops::DType dtype : ops::kAllDTypes) {
        for (const int64_t num_elements : {0, 1, 3, 17, 1000, 20'011, 300'001}) {
          if (num_elements > 100'000 && dtype != ops::DType::kFloat32) continue;
          rank.Note(fmt::format("{}[{}]", ops::Name(dtype), num_elements));
          body(rank, dtype, num_elements);
        }
      }
    });
  }
};

TEST_P(Values, AllReduce) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    TestBuffer input(rank, place(), dtype, num_elements);
    TestBuffer output(rank, place(), dtype, num_elements);
    input.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
    const Operation operation{
        .kind = Kind::kAllReduce, .input = input.buffer(), .output = output.buffer()};
    rank.Run(operation);
    output.Expect([&](int64_t i) { return SumOf(size(), i); }, "sum");
    input.Expect([&](int64_t i) { return ValueOf(rank.rank(), i); }, "input");
    rank.Run({.kind = Kind::kAllReduce, .input = input.buffer(), .output = input.buffer()});
    input.Expect([&](int64_t i) { return SumOf(size(), i); }, "sum in place");
  });
}

TEST_P(Values, Reduce) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    const int root = size() / 2;
    const bool is_root = rank.rank() == root;
    TestBuffer input(rank, place(), dtype, num_elements);
    TestBuffer output(rank, place(), dtype, is_root ? num_elements : 0);
    input.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
    Operation operation{
        .kind = Kind::kReduce, .input = input.buffer(), .output = output.buffer(), .root = root};
    rank.Run(operation);
    output.Expect([&](int64_t i) { return SumOf(size(), i); }, "sum");
    input.Expect([&](int64_t i) { return ValueOf(rank.rank(), i); }, "input");
    operation.output = is_root ? input.buffer() : Buffer{};
    operation.reduction = ReduceOp::kMax;
    rank.Run(operation);
    input.Expect(
        [&](int64_t i) {
          int largest = ValueOf(rank.rank(), i);
          for (int r = 0; r < size() && is_root; ++r) largest = std::max(largest, ValueOf(r, i));
          return largest;
        },
        "maximum in place");
  });
}

TEST_P(Values, ReduceScatter) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    for (const Counts& counts : {Counts(), UnevenCounts(size(), num_elements)}) {
      const Counts sizes = counts.empty() ? Counts(size(), num_elements) : counts;
      const int64_t begin = Begin(sizes, rank.rank());
      TestBuffer input(rank, place(), dtype, Begin(sizes, size()));
      TestBuffer output(rank, place(), dtype, sizes[rank.rank()]);
      input.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
      Operation operation{.kind = Kind::kReduceScatter,
                          .input = input.buffer(),
                          .output = output.buffer(),
                          .input_counts = counts};
      rank.Run(operation);
      output.Expect([&](int64_t i) { return SumOf(size(), begin + i); }, "sum");
      // Into this rank's block of the input.
      operation.output.data = input.buffer().bytes() + begin * ops::SizeOf(dtype);
      rank.Run(operation);
      input.Expect(
          [&](int64_t i) {
            const bool mine = i >= begin && i < begin + sizes[rank.rank()];
            return mine ? SumOf(size(), i) : ValueOf(rank.rank(), i);
          },
          "sum in place");
    }
  });
}

TEST_P(Values, Broadcast) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    const int root = size() - 1;
    TestBuffer buffer(rank, place(), dtype, num_elements);
    buffer.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
    rank.Run({.kind = Kind::kBroadcast, .output = buffer.buffer(), .root = root});
    buffer.Expect([&](int64_t i) { return ValueOf(root, i); }, "broadcast");
  });
}

TEST_P(Values, AllGatherAndGather) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    for (const Counts& counts : {Counts(), UnevenCounts(size(), num_elements)}) {
      const Counts sizes = counts.empty() ? Counts(size(), num_elements) : counts;
      TestBuffer input(rank, place(), dtype, sizes[rank.rank()]);
      TestBuffer output(rank, place(), dtype, Begin(sizes, size()));
      input.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
      const auto gathered = [&](int64_t i) {
        const int from = BlockAt(sizes, i);
        return ValueOf(from, i - Begin(sizes, from));
      };
      Operation operation{.kind = Kind::kAllGather,
                          .input = input.buffer(),
                          .output = output.buffer(),
                          .output_counts = counts};
      rank.Run(operation);
      output.Expect(gathered, "all_gather");
      // From this rank's block of the output.
      output.Fill([&](int64_t i) { return ValueOf(rank.rank(), i - Begin(sizes, rank.rank())); });
      operation.input.data =
          output.buffer().bytes() + Begin(sizes, rank.rank()) * ops::SizeOf(dtype);
      rank.Run(operation);
      output.Expect(gathered, "all_gather in place");

      const bool is_root = rank.rank() == size() / 2;
      TestBuffer at_root(rank, place(), dtype, is_root ? Begin(sizes, size()) : 0);
      operation.kind = Kind::kGather;
      operation.root = size() / 2;
      operation.output = at_root.buffer();
      rank.Run(operation);
      at_root.Expect(gathered, "gather");
    }
  });
}

TEST_P(Values, Scatter) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    for (const Counts& counts : {Counts(), UnevenCounts(size(), num_elements)}) {
      const Counts sizes = counts.empty() ? Counts(size(), num_elements) : counts;
      const int root = size() / 2;
      TestBuffer input(rank, place(), dtype, rank.rank() == root ? Begin(sizes, size()) : 0);
      TestBuffer output(rank, place(), dtype, sizes[rank.rank()]);
      input.Fill([&](int64_t i) { return ValueOf(root, i); });
      rank.Run({.kind = Kind::kScatter,
                .input = input.buffer(),
                .output = output.buffer(),
                .root = root,
                .input_counts = counts});
      output.Expect([&](int64_t i) { return ValueOf(root, Begin(sizes, rank.rank()) + i); },
                    "scatter");
    }
  });
}

TEST_P(Values, AllToAll) {
  ForEach([&](TestRank& rank, ops::DType dtype, int64_t num_elements) {
    for (const bool uneven : {false, true}) {
      const auto given = [&](int from, int to) {
        return uneven ? num_elements * (2 * from + to) / 4 : num_elements;
      };
      Counts to_others, from_others;
      for (int peer = 0; peer < size(); ++peer) {
        to_others.push_back(given(rank.rank(), peer));
        from_others.push_back(given(peer, rank.rank()));
      }
      TestBuffer input(rank, place(), dtype, Begin(to_others, size()));
      TestBuffer output(rank, place(), dtype, Begin(from_others, size()));
      input.Fill([&](int64_t i) { return ValueOf(rank.rank(), i); });
      rank.Run({.kind = Kind::kAllToAll,
                .input = input.buffer(),
                .output = output.buffer(),
                .input_counts = uneven ? to_others : Counts(),
                .output_counts = uneven ? from_others : Counts()});
      output.Expect(
          [&](int64_t i) {
            const int from = BlockAt(from_others, i);
            int64_t begin = 0;
            for (int to = 0; to < rank.rank(); ++to) begin += given(from, to);
            return ValueOf(from, begin + i - Begin(from_others, from));
          },
          uneven ? "uneven all_to_all" : "all_to_all");
    }
  });
}

std::string NameOf(const testing::TestParamInfo<Values::ParamType>& info) {
  const char* const places[] = {"Own", "Allocated", "Mixed"};
  return fmt::format("{}ranks{}", std::get<0>(info.param),
                     places[static_cast<int>(std::get<1>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Values,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(Place::kOwn, Place::kAllocated,
                                                          Place::kMixed)),
                         NameOf);

TEST(Post, RunsAheadOfThePeers) {
  RunRanks(3, [](TestRank& rank) {
    constexpr int kOperations = 8;
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
      EXPECT_GT(num_posted, 0);
      for (int i = 0; i < kOperations; ++i) {
        rank.backend().Run(operations[i], calls[i], DeadlineAfter(1min));
        EXPECT_EQ(values[i], SumOf(3, repeat + i));
      }
    }
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
      EXPECT_LT(Clock::now() - start, 1s);
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

// Runs one that must fail between `at_least` and `at_most` after its start.
void ExpectTrouble(TestRank& rank, const AllReduce& all_reduce, Duration timeout,
                   PeerTrouble::Kind kind, const std::vector<int>& ranks, Duration at_least,
                   Duration at_most) {
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
  EXPECT_LT(Clock::now() - start, at_most);
}

TEST(Waits, EndAtTheDeadlineAndNameWhoIsMissing) {
  for (const AllReduce& all_reduce : kAllReduces) {
    RunRanks(4, [&](TestRank& rank) {
      if (rank.rank() % 2 == 0) {
        ExpectTrouble(rank, all_reduce, 1s, PeerTrouble::kTimedOut, {1, 3}, 1s, 1100ms);
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
        return ExpectTrouble(rank, all_reduce, 1min, PeerTrouble::kLost, {1}, 0s, 1s);
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
  EXPECT_LT(Clock::now() - start, 2s);
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
  EXPECT_LT(Clock::now() - start, 1s);
}

}  // namespace
}  // namespace ddp
