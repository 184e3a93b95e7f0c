#include "ddp/collectives/messages/message_backend.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/messages/testing.h"
#include "ddp/collectives/reduce.h"

namespace ddp {
namespace {

using ops::DType;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// Elements of any dtype.
class Values {
 public:
  Values(DType dtype, int64_t num_elements)
      : dtype_(dtype), num_elements_(num_elements), bytes_(num_elements * ops::SizeOf(dtype)) {}

  Buffer buffer() { return {bytes_.data(), num_elements_, dtype_}; }
  Buffer buffer(const Block& block) {
    return {bytes_.data() + block.begin * ops::SizeOf(dtype_), block.num_elements, dtype_};
  }
  int64_t num_elements() const { return num_elements_; }
  friend bool operator==(const Values&, const Values&) = default;

 private:
  DType dtype_;
  int64_t num_elements_;
  std::vector<std::byte> bytes_;
};

bool SameBits(const Buffer& a, const Buffer& b) {
  return a.num_bytes() == b.num_bytes() &&
         std::equal(a.bytes(), a.bytes() + a.num_bytes(), b.bytes());
}

// The same on every rank that asks. Their sums depend on the order.
Values ValuesOf(int rank, DType dtype, int64_t num_elements) {
  constexpr double kMagnitudes[] = {1e4, 1, -1e4, 0.125, -3};
  std::minstd_rand random(rank + 1);
  Values values(dtype, num_elements);
  ops::Dispatch(dtype, [&]<class T>() {
    T* const data = static_cast<T*>(values.buffer().data);
    for (int64_t i = 0; i < num_elements; ++i) {
      const double value = kMagnitudes[random() % 5] + random() % 7 / 8.0;
      data[i] = static_cast<T>(static_cast<float>(std::is_same_v<T, uint8_t> ? i + rank : value));
    }
  });
  return values;
}

// One rank of a group, on a thread of its own.
class Rank {
 public:
  Rank(std::shared_ptr<MessageHub> hub, int rank, int size)
      : rank_(rank), size_(size), backend_(MakeHubTransport(std::move(hub), rank)) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  MessageBackend& backend() { return backend_; }

  void Run(const Operation& operation, Duration timeout = seconds(60)) {
    backend_.Run(operation, CallOf(operation, ++sequence_number_), DeadlineAfter(timeout));
  }

 private:
  const int rank_;
  const int size_;
  int64_t sequence_number_ = 0;
  MessageBackend backend_;
};

void RunRanks(int size, const std::function<void(Rank&)>& body) {
  const auto hub = MakeMessageHub(size);
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      Rank rank(hub, i, size);
      try {
        rank.Run({.kind = OperationKind::kJoin});
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << i << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Case {
  int num_ranks;
  DType dtype;
  int64_t num_elements;
};

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}ranks_{}_{}", info.param.num_ranks, Name(info.param.dtype),
                     info.param.num_elements);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const int num_ranks : {1, 2, 3, 4, 9, 12}) {
    for (const DType dtype : ops::kAllDTypes) {
      for (const int64_t num_elements : {0, 1, 3, 17, 1000}) {
        cases.push_back({num_ranks, dtype, num_elements});
      }
    }
    if (num_ranks % 3 == 0) cases.push_back({num_ranks, DType::kFloat32, (1 << 20) + 3});
  }
  return cases;
}

class OperationsTest : public testing::TestWithParam<Case> {
 protected:
  int size() const { return GetParam().num_ranks; }
  DType dtype() const { return GetParam().dtype; }
  int64_t num_elements() const { return GetParam().num_elements; }

  Values Mine(const Rank& rank) const { return ValuesOf(rank.rank(), dtype(), num_elements()); }
  Values Nothing() const { return Values(dtype(), num_elements()); }

  // Blocks are smaller where everyone has one.
  int64_t block_elements() const {
    return num_elements() > 1000 ? num_elements() / size() : num_elements();
  }

  // Every other rank has three elements more.
  std::vector<int64_t> UnevenCounts() const {
    std::vector<int64_t> counts(size(), block_elements());
    for (int rank = 0; rank < size(); rank += 2) counts[rank] += 3;
    return counts;
  }

  // The reduction of all ranks' values of so many elements.
  Values Reduced(ReduceOp op, int64_t num_elements) const {
    std::vector<Values> all;
    std::vector<const void*> inputs;
    all.reserve(size());
    for (int rank = 0; rank < size(); ++rank) {
      inputs.push_back(all.emplace_back(ValuesOf(rank, dtype(), num_elements)).buffer().data);
    }
    Values reduced(dtype(), num_elements);
    void* const output = reduced.buffer().data;
    Reduce(op, dtype(), inputs, {&output, 1}, num_elements);
    return reduced;
  }

  // What rank 0 to size() - 1 get of the sum of so many elements, cut up by `counts`.
  void ExpectReduceScatter(const std::vector<int64_t>& counts, int64_t total) const {
    Values sum = Reduced(ReduceOp::kSum, total);
    RunRanks(size(), [&](Rank& rank) {
      Values input = ValuesOf(rank.rank(), dtype(), total);
      Operation operation{
          .kind = OperationKind::kReduceScatter, .input = input.buffer(), .input_counts = counts};
      const Block block = operation.InputBlock(rank.rank(), size());
      Values output(dtype(), block.num_elements);
      operation.output = output.buffer();
      rank.Run(operation);
      EXPECT_TRUE(SameBits(output.buffer(), sum.buffer(block)));
      // In place.
      operation.output = input.buffer(block);
      rank.Run(operation);
      EXPECT_TRUE(SameBits(input.buffer(block), sum.buffer(block)));
    });
  }

  // All ranks' blocks, one after the other.
  Values Gathered(const std::vector<int64_t>& counts) const {
    Values all(dtype(), std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    std::byte* target = all.buffer().bytes();
    for (int rank = 0; rank < size(); ++rank) {
      Values block = ValuesOf(rank, dtype(), counts[rank]);
      target = std::copy_n(block.buffer().bytes(), block.buffer().num_bytes(), target);
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(All, OperationsTest, testing::ValuesIn(AllCases()), NameOf);

TEST_P(OperationsTest, AllReduce) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin,
                            ReduceOp::kMax, ReduceOp::kBitXor}) {
    if (!Supports(op, dtype())) continue;
    const Values expected = Reduced(op, num_elements());
    RunRanks(size(), [&](Rank& rank) {
      Values input = Mine(rank), output = Nothing();
      rank.Run({.kind = OperationKind::kAllReduce,
                .input = input.buffer(),
                .output = output.buffer(),
                .reduction = op});
      EXPECT_EQ(output, expected) << Name(op);
      EXPECT_EQ(input, Mine(rank));
      rank.Run({.kind = OperationKind::kAllReduce,
                .input = input.buffer(),
                .output = input.buffer(),
                .reduction = op});
      EXPECT_EQ(input, expected) << Name(op) << " in place";
    });
  }
}

TEST_P(OperationsTest, Reduce) {
  const Values expected = Reduced(ReduceOp::kSum, num_elements());
  RunRanks(size(), [&](Rank& rank) {
    for (int root = 0; root < size(); root += 3) {
      const bool is_root = rank.rank() == root;
      Values input = Mine(rank), output = Nothing();
      rank.Run({.kind = OperationKind::kReduce,
                .input = input.buffer(),
                .output = is_root ? output.buffer() : Buffer(),
                .reduction = ReduceOp::kSum,
                .root = root});
      EXPECT_EQ(output, is_root ? expected : Nothing());
      EXPECT_EQ(input, Mine(rank));
      rank.Run({.kind = OperationKind::kReduce,
                .input = input.buffer(),
                .output = is_root ? input.buffer() : Buffer(),
                .reduction = ReduceOp::kSum,
                .root = root});
      EXPECT_EQ(input, is_root ? expected : Mine(rank));
    }
  });
}

TEST_P(OperationsTest, ReduceScatter) {
  const std::vector<int64_t> counts = UnevenCounts();
  ExpectReduceScatter({}, block_elements() * size());
  ExpectReduceScatter(counts, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

TEST_P(OperationsTest, Broadcast) {
  RunRanks(size(), [&](Rank& rank) {
    for (int root = 0; root < size(); root += 2) {
      Values buffer = rank.rank() == root ? Mine(rank) : Nothing();
      rank.Run({.kind = OperationKind::kBroadcast, .output = buffer.buffer(), .root = root});
      EXPECT_EQ(buffer, ValuesOf(root, dtype(), num_elements()));
    }
  });
}

TEST_P(OperationsTest, AllGather) {
  const std::vector<int64_t> even(size(), block_elements()), uneven = UnevenCounts();
  for (const std::vector<int64_t>& counts : {even, uneven}) {
    const Values expected = Gathered(counts);
    RunRanks(size(), [&](Rank& rank) {
      Values input = ValuesOf(rank.rank(), dtype(), counts[rank.rank()]);
      Values output(dtype(), expected.num_elements());
      Operation operation{
          .kind = OperationKind::kAllGather, .input = input.buffer(), .output = output.buffer()};
      if (counts == uneven) operation.output_counts = counts;
      rank.Run(operation);
      EXPECT_EQ(output, expected);
      // In place.
      operation.input = output.buffer(operation.OutputBlock(rank.rank(), size()));
      rank.Run(operation);
      EXPECT_EQ(output, expected);
    });
  }
}

TEST_P(OperationsTest, GatherAndScatter) {
  const int root = size() - 1;
  const std::vector<int64_t> even(size(), block_elements()), uneven = UnevenCounts();
  for (const std::vector<int64_t>& counts : {even, uneven}) {
    const std::vector<int64_t> given = counts == uneven ? counts : std::vector<int64_t>();
    const Values expected = Gathered(counts);
    RunRanks(size(), [&](Rank& rank) {
      const bool is_root = rank.rank() == root;
      Values input = ValuesOf(rank.rank(), dtype(), counts[rank.rank()]);
      Values all(dtype(), is_root ? expected.num_elements() : 0);
      rank.Run({.kind = OperationKind::kGather,
                .input = input.buffer(),
                .output = all.buffer(),
                .root = root,
                .output_counts = given});
      if (is_root) {
        EXPECT_EQ(all, expected);
      }
      Values output(dtype(), counts[rank.rank()]);
      rank.Run({.kind = OperationKind::kScatter,
                .input = all.buffer(),
                .output = output.buffer(),
                .root = root,
                .input_counts = given});
      EXPECT_EQ(output, input);
    });
  }
}

// Rank r's block for rank s is s elements longer than the others.
TEST_P(OperationsTest, AllToAll) {
  RunRanks(size(), [&](Rank& rank) {
    const auto value = [](int from, int to) { return from * 16 + to; };
    for (const bool is_even : {true, false}) {
      const auto count = [&](int to) { return block_elements() + (is_even ? 0 : to); };
      Operation operation{.kind = OperationKind::kAllToAll};
      int64_t num_sent = 0;
      for (int peer = 0; peer < size(); ++peer) num_sent += count(peer);
      if (!is_even) {
        for (int peer = 0; peer < size(); ++peer) operation.input_counts.push_back(count(peer));
        operation.output_counts.assign(size(), count(rank.rank()));
      }
      Values input(DType::kInt32, num_sent);
      Values output(DType::kInt32, count(rank.rank()) * size());
      Values expected = output;
      operation.input = input.buffer();
      operation.output = output.buffer();
      for (int peer = 0; peer < size(); ++peer) {
        const Block to = operation.InputBlock(peer, size());
        std::fill_n(static_cast<int32_t*>(input.buffer(to).data), to.num_elements,
                    value(rank.rank(), peer));
        const Block from = operation.OutputBlock(peer, size());
        std::fill_n(static_cast<int32_t*>(expected.buffer(from).data), from.num_elements,
                    value(peer, rank.rank()));
      }
      rank.Run(operation);
      EXPECT_EQ(output, expected);
    }
  });
}

// Nobody leaves a barrier before the last has come.
TEST(MessageBackendTest, BarrierWaitsForAll) {
  for (const int size : {2, 5, 12}) {
    std::atomic<int> num_here = 0;
    RunRanks(size, [&](Rank& rank) {
      for (int round = 1; round <= 20; ++round) {
        ++num_here;
        rank.Run({.kind = OperationKind::kBarrier});
        EXPECT_GE(num_here, round * size);
      }
    });
  }
}

// The sum doesn't fit into float32, the average does. Infinities of the input stay.
TEST(MessageBackendTest, AverageDoesNotOverflow) {
  const float most = std::numeric_limits<float>::max();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int size : {4, 12}) {
    RunRanks(size, [&](Rank& rank) {
      for (const bool in_place : {true, false}) {
        std::vector<float> input = {most, 1, rank.rank() == 3 ? infinity : 1};
        std::vector<float> output(3);
        const Buffer in{input.data(), 3}, out{in_place ? input.data() : output.data(), 3};
        rank.Run({.kind = OperationKind::kAllReduce,
                  .input = in,
                  .output = out,
                  .reduction = ReduceOp::kAverage});
        EXPECT_THAT(in_place ? input : output, testing::ElementsAre(most, 1, infinity));
      }
    });
  }
}

void ExpectDisagreement(Rank& rank, const Operation& operation,
                        const std::vector<std::string>& parts) {
  try {
    rank.Run(operation);
    ADD_FAILURE() << "rank " << rank.rank() << " found nothing wrong";
  } catch (const Disagreement& error) {
    for (const std::string& part : parts) EXPECT_THAT(error.what(), HasSubstr(part));
  } catch (const PeerTrouble& trouble) {
    // Others have found out before, and left.
    EXPECT_EQ(trouble.kind(), PeerTrouble::kLost);
  }
  rank.backend().Close();
}

// One rank calls something else: everyone learns it, from the rank itself or because others leave.
TEST(MessageBackendTest, MismatchesAreFoundAtOnce) {
  Values four(DType::kFloat32, 4), six(DType::kFloat32, 6), many(DType::kFloat32, 1 << 20);
  Values integers(DType::kInt32, 4), all(DType::kFloat32, 4 * 12);
  const auto all_reduce = [](Values& values, ReduceOp op) {
    return Operation{.kind = OperationKind::kAllReduce,
                     .input = values.buffer(),
                     .output = values.buffer(),
                     .reduction = op};
  };
  const Operation usual = all_reduce(four, ReduceOp::kSum);
  const std::vector<Operation> others = {
      all_reduce(six, ReduceOp::kSum),
      all_reduce(many, ReduceOp::kSum),
      all_reduce(four, ReduceOp::kMax),
      all_reduce(integers, ReduceOp::kSum),
      {.kind = OperationKind::kBarrier},
      {.kind = OperationKind::kBroadcast, .output = four.buffer()},
      {.kind = OperationKind::kAllGather, .input = four.buffer(), .output = all.buffer()},
      {.kind = OperationKind::kGather, .input = four.buffer(), .output = all.buffer(), .root = 1},
  };
  for (const int size : {2, 4, 12}) {
    for (const Operation& other : others) {
      const auto start = Clock::now();
      RunRanks(size, [&](Rank& rank) {
        Values mine(DType::kFloat32, 4);
        Operation operation = usual;
        operation.input = operation.output = mine.buffer();
        const bool differs = rank.rank() == size / 2;
        ExpectDisagreement(rank, differs ? other : operation,
                           {Describe(CallOf(usual, 2)), Describe(CallOf(other, 2)),
                            fmt::format("rank {} called", size / 2)});
      });
      EXPECT_LT(Clock::now() - start, seconds(30));
    }
  }
}

TEST(MessageBackendTest, AllToAllComparesEachPair) {
  RunRanks(3, [](Rank& rank) {
    Values input(DType::kFloat32, 6), output(DType::kFloat32, rank.rank() == 2 ? 7 : 6);
    Operation operation{.kind = OperationKind::kAllToAll,
                        .input = input.buffer(),
                        .output = output.buffer(),
                        .input_counts = {2, 2, 2},
                        .output_counts = {2, 2, 2}};
    if (rank.rank() == 1) return rank.Run(operation);
    if (rank.rank() == 2) operation.output_counts = {3, 2, 2};
    ExpectDisagreement(rank, operation, {"rank 0 sends 8 bytes to rank 2, which takes 12"});
  });
}

Operation Send(Values& values, int to) {
  return {.kind = OperationKind::kSend, .input = values.buffer(), .root = to};
}
Operation Receive(Values& values, int from) {
  return {.kind = OperationKind::kReceive, .output = values.buffer(), .root = from};
}

// Everyone sends to everyone, several messages of different sizes, in order.
TEST(MessageBackendTest, ExchangesMessages) {
  const std::vector<int64_t> sizes = {5, 0, 100'000, 1};
  for (const int size : {2, 4, 9}) {
    RunRanks(size, [&](Rank& rank) {
      std::deque<Values> sent, received, expected;
      std::vector<Operation> operations;
      for (int peer = size - 1; peer >= 0; --peer) {
        if (peer == rank.rank()) continue;
        for (const int64_t num_elements : sizes) {
          const auto values = [&](int from, int to) {
            return ValuesOf(from * 100 + to, DType::kFloat32, num_elements);
          };
          sent.push_back(values(rank.rank(), peer));
          operations.push_back(Send(sent.back(), peer));
          expected.push_back(values(peer, rank.rank()));
          received.emplace_back(DType::kFloat32, num_elements);
          operations.push_back(Receive(received.back(), peer));
        }
      }
      rank.backend().Exchange(operations, DeadlineAfter(seconds(60)));
      EXPECT_EQ(received, expected);
    });
  }
}

// What rank 0 waits for first comes last: rank 1 needs rank 2's message for it, which rank 2 sends
// after rank 0 has taken one.
TEST(MessageBackendTest, ReceivesAtTheSameTime) {
  RunRanks(3, [](Rank& rank) {
    const Deadline deadline = DeadlineAfter(seconds(60));
    Values mine = ValuesOf(rank.rank(), DType::kFloat32, 100'000);
    Values a(DType::kFloat32, 100'000), b(DType::kFloat32, 100'000);
    const auto exchange = [&](const std::vector<Operation>& operations) {
      rank.backend().Exchange(operations, deadline);
    };
    if (rank.rank() == 0) {
      exchange({Receive(a, 1), Receive(b, 2)});
      EXPECT_EQ(a, ValuesOf(1, DType::kFloat32, 100'000));
      EXPECT_EQ(b, ValuesOf(2, DType::kFloat32, 100'000));
    } else if (rank.rank() == 1) {
      exchange({Receive(a, 2)});
      exchange({Send(mine, 0)});
    } else {
      exchange({Send(mine, 0)});
      exchange({Send(mine, 1)});
    }
  });
}

TEST(MessageBackendTest, MessagesOfOtherSizeOrDTypeAreRefused) {
  for (const DType dtype : {DType::kFloat32, DType::kInt32}) {
    RunRanks(2, [&](Rank& rank) {
      Values sent(DType::kFloat32, 4), received(dtype, dtype == DType::kFloat32 ? 3 : 4);
      const Operation operation = rank.rank() == 0 ? Send(sent, 1) : Receive(received, 0);
      try {
        rank.backend().Exchange({&operation, 1}, DeadlineAfter(seconds(60)));
        ADD_FAILURE() << "rank " << rank.rank() << " found nothing wrong";
      } catch (const Disagreement& error) {
        EXPECT_EQ(rank.rank(), 1);
        EXPECT_EQ(error.peer(), 0);
        EXPECT_EQ(std::string(error.what()),
                  fmt::format("rank 0 sent float32[4] to rank 1, which received {}[{}]",
                              Name(dtype), received.buffer().num_elements));
      } catch (const PeerTrouble& trouble) {
        EXPECT_EQ(rank.rank(), 0);
        EXPECT_EQ(trouble.kind(), PeerTrouble::kLost);
      }
      rank.backend().Close();
    });
  }
}

TEST(MessageBackendTest, NamesWhoIsLate) {
  for (const int size : {3, 9}) {
    RunRanks(size, [&](Rank& rank) {
      if (rank.rank() == 1) {
        std::this_thread::sleep_for(milliseconds(500));
        return;
      }
      Values values(DType::kFloat32, 10);
      try {
        rank.Run({.kind = OperationKind::kAllReduce,
                  .input = values.buffer(),
                  .output = values.buffer()},
                 milliseconds(200));
        ADD_FAILURE() << "rank " << rank.rank() << " didn't need rank 1";
      } catch (const PeerTrouble& trouble) {
        if (size == 3 || rank.rank() < 3) {
          EXPECT_EQ(trouble.kind(), PeerTrouble::kTimedOut);
          EXPECT_THAT(trouble.ranks(), testing::ElementsAre(1));
        }
      }
    });
  }
}

// A rank that is gone is found while another is only late.
TEST(MessageBackendTest, NamesWhoIsLost) {
  RunRanks(3, [&](Rank& rank) {
    if (rank.rank() == 2) return rank.backend().Close();
    if (rank.rank() == 1) return std::this_thread::sleep_for(milliseconds(300));
    const auto start = Clock::now();
    try {
      rank.Run({.kind = OperationKind::kBarrier});
      ADD_FAILURE() << "a barrier without rank 2";
    } catch (const PeerTrouble& trouble) {
      EXPECT_EQ(trouble.kind(), PeerTrouble::kLost);
      EXPECT_THAT(trouble.ranks(), testing::ElementsAre(2));
    }
    EXPECT_LT(Clock::now() - start, seconds(10));
  });
}

TEST(MessageBackendTest, StopEndsAWait) {
  RunRanks(2, [&](Rank& rank) {
    if (rank.rank() == 1) return std::this_thread::sleep_for(milliseconds(300));
    std::thread stopper([&] {
      std::this_thread::sleep_for(milliseconds(50));
      rank.backend().Stop();
    });
    const auto start = Clock::now();
    EXPECT_THROW(rank.Run({.kind = OperationKind::kBarrier}), Stopped);
    EXPECT_LT(Clock::now() - start, seconds(10));
    stopper.join();
  });
}

}  // namespace
}  // namespace ddp
