// The right values, to the last bit, for every backend, operation, dtype and number of ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/reduce.h"
#include "ddp/collectives/testing.h"

namespace ddp {
namespace {

using ops::BFloat16;
using ops::DType;
using ops::Float16;
using testing::Each;
using testing::ElementsAre;

// Compares bits, as NaN and -0 would not compare as values.
template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// The same on every rank that asks. Sums of these depend on their order.
template <class T>
std::vector<T> ValuesOf(int rank, int64_t size) {
  std::mt19937 random(rank);
  std::vector<T> values(size);
  for (T& value : values) {
    const double magnitudes[] = {1e8, 1, -1e8, 0.5, -3};
    const double number = magnitudes[random() % 5] + static_cast<double>(random() % 7);
    value = static_cast<T>(std::is_integral_v<T> ? static_cast<float>(random() % 100)
                                                 : static_cast<float>(number));
  }
  return values;
}

template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, int64_t,
                                std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <class W>
W Apply(ReduceOp op, W a, W b) {
  if (op == ReduceOp::kMin) return std::min(a, b);
  if (op == ReduceOp::kMax) return std::max(a, b);
  if constexpr (std::is_integral_v<W>) {
    if (op == ReduceOp::kBitAnd) return a & b;
    if (op == ReduceOp::kBitOr) return a | b;
    if (op == ReduceOp::kBitXor) return a ^ b;
    // Wraps.
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<W>(op == ReduceOp::kProduct ? x * y : x + y);
  } else {
    return op == ReduceOp::kProduct ? a * b : a + b;
  }
}

// Written without the library's kernels: what the contract says, an element at a time. Each host's
// ranks come first, in rank order, then the hosts.
template <class T>
T ExpectedElement(ReduceOp op, const TestSetting& setting, const std::vector<std::vector<T>>& ranks,
                  int64_t i) {
  std::vector<Wide<T>> hosts;
  for (int rank = 0; rank < setting.num_ranks; ++rank) {
    const auto value = static_cast<Wide<T>>(ranks[rank][i]);
    if (static_cast<int>(hosts.size()) == setting.HostOf(rank)) {
      hosts.push_back(value);
    } else {
      hosts.back() = Apply(op, hosts.back(), value);
    }
  }
  Wide<T> result = hosts[0];
  for (size_t host = 1; host < hosts.size(); ++host) result = Apply(op, result, hosts[host]);
  if (op == ReduceOp::kAverage) result /= static_cast<Wide<T>>(setting.num_ranks);
  return static_cast<T>(result);
}

template <class T>
std::vector<T> Expected(ReduceOp op, const TestSetting& setting,
                        const std::vector<std::vector<T>>& ranks) {
  std::vector<T> expected(ranks[0].size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = ExpectedElement(op, setting, ranks, static_cast<int64_t>(i));
  }
  return expected;
}

template <class T>
std::vector<T> Concatenate(const std::vector<std::vector<T>>& parts) {
  std::vector<T> whole;
  for (const std::vector<T>& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

constexpr ReduceOp kAllOps[] = {ReduceOp::kSum,   ReduceOp::kAverage, ReduceOp::kProduct,
                                ReduceOp::kMin,   ReduceOp::kMax,     ReduceOp::kBitAnd,
                                ReduceOp::kBitOr, ReduceOp::kBitXor};
#ifdef __SANITIZE_THREAD__
constexpr int64_t kLargest = (1 << 16) + 3;  // it takes a hundred times as long
#else
constexpr int64_t kLargest = (1 << 20) + 3;
#endif
constexpr int64_t kSizes[] = {0, 1, 3, 17, 1000, kLargest};

class CollectivesTest : public GroupTest {
 protected:
  // ValuesOf every rank.
  template <class T>
  std::vector<std::vector<T>> AllValues(int64_t num_elements) const {
    std::vector<std::vector<T>> values;
    for (int rank = 0; rank < size(); ++rank) values.push_back(ValuesOf<T>(rank, num_elements));
    return values;
  }

  // How many elements each rank has, where that differs: 0, unit, 5 units, 0, ...
  std::vector<int64_t> UnevenCounts(int64_t unit) const {
    std::vector<int64_t> counts;
    for (int rank = 0; rank < size(); ++rank)
      counts.push_back(unit * (int64_t[]){0, 1, 5}[rank % 3]);
    return counts;
  }
};

INSTANTIATE_TEST_SUITE_P(All, CollectivesTest, testing::ValuesIn(AllSettings({1, 2, 3, 4})),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(CollectivesTest, AllReduceEveryDTypeOpAndSize) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const DType dtype : ops::kAllDTypes) {
      ops::Dispatch(dtype, [&]<class T>() {
        for (const int64_t num_elements : kSizes) {
          const auto inputs = AllValues<T>(num_elements);
          for (const ReduceOp op : kAllOps) {
            // The largest size once per dtype is enough.
            if (num_elements > 1000 && op != ReduceOp::kSum) continue;
            if (!Supports(op, dtype)) continue;
            rank.Note(fmt::format("all_reduce {} {} of {}", Name(op), Name(dtype), num_elements));
            std::vector<T> values = inputs[rank.rank()];
            group.AllReduce(BufferOfVector(values), op)->Wait();
            EXPECT_TRUE(SameBits(values, Expected(op, GetParam(), inputs)))
                << Name(op) << " of " << num_elements << " " << Name(dtype);
          }
        }
      });
    }
  });
}

TEST_P(CollectivesTest, AllReduceIntoAnotherBuffer) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : kSizes) {
      const auto inputs = AllValues<float>(num_elements);
      std::vector<float> input = inputs[rank.rank()];
      std::vector<float> output(num_elements, -1);
      group.AllReduce(BufferOfVector(input), BufferOfVector(output), ReduceOp::kSum)->Wait();
      EXPECT_TRUE(SameBits(output, Expected(ReduceOp::kSum, GetParam(), inputs)));
      EXPECT_TRUE(SameBits(input, inputs[rank.rank()]));
    }
  });
}

TEST_P(CollectivesTest, PremultipliedSums) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    const double factor = 1.0 / (rank.rank() + 1);
    std::vector<float> values(1000, static_cast<float>(6 * (rank.rank() + 1)));
    std::vector<float> block(values.size() * size(), values[0]);
    std::vector<float> output(1000);
    group.AllReduce(BufferOfVector(values), PremultipliedSum(factor))->Wait();
    EXPECT_THAT(values, Each(6.0f * size()));
    group.ReduceScatter(BufferOfVector(block), BufferOfVector(output), PremultipliedSum(factor))
        ->Wait();
    EXPECT_THAT(output, Each(6.0f * size()));
    EXPECT_THAT(block, Each(6.0f * (rank.rank() + 1)));
  });
}

TEST_P(CollectivesTest, AveragesDoNotOverflow) {
  Run([&](TestRank&, ProcessGroup& group) {
    for (const int64_t num_elements : {int64_t{5}, int64_t{100'000}}) {
      std::vector<float> large(num_elements, 3e38f);
      std::vector<float> infinite(num_elements, std::numeric_limits<float>::infinity());
      std::vector<int32_t> integers(num_elements, std::numeric_limits<int32_t>::max());
      std::vector<Float16> halves(num_elements, Float16(40000.0f));
      group.AllReduce(BufferOfVector(large), ReduceOp::kAverage)->Wait();
      group.AllReduce(BufferOfVector(infinite), ReduceOp::kAverage)->Wait();
      group.AllReduce(BufferOfVector(integers), ReduceOp::kAverage)->Wait();
      group.AllReduce(BufferOfVector(halves), ReduceOp::kAverage)->Wait();
      EXPECT_THAT(large, Each(3e38f));
      EXPECT_THAT(infinite, Each(std::numeric_limits<float>::infinity()));
      EXPECT_THAT(integers, Each(std::numeric_limits<int32_t>::max()));
      for (const Float16 value : halves) ASSERT_EQ(static_cast<float>(value), 40000.0f);
    }
  });
}

TEST_P(CollectivesTest, NanPropagates) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax}) {
      for (int holder = 0; holder < size(); ++holder) {
        const float mine = rank.rank() == holder ? std::numeric_limits<float>::quiet_NaN() : 1;
        std::vector<float> values(100, mine);
        group.AllReduce(BufferOfVector(values), op)->Wait();
        EXPECT_THAT(values, Each(testing::IsNan()));
      }
    }
  });
}

TEST_P(CollectivesTest, HowItIsCutUpDoesNotChangeABit) {
  constexpr int64_t kElements = 300'007;
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<float> whole = ValuesOf<float>(rank.rank(), kElements);
    std::vector<float> parts = whole;
    const ops::Memory memory = group.Allocate(kElements * sizeof(float), ops::Device::Cpu());
    float* const direct = reinterpret_cast<float*>(memory.get());
    std::ranges::copy(whole, direct);
    group.AllReduce(BufferOfVector(whole), ReduceOp::kSum)->Wait();
    group.AllReduce({direct, kElements}, ReduceOp::kSum)->Wait();
    std::vector<std::shared_ptr<Work>> works;
    int64_t begin = 0;
    for (int64_t step = 1; begin < kElements; step = step * 3 + 1) {
      const int64_t end = std::min(begin + step, kElements);
      works.push_back(group.AllReduce({parts.data() + begin, end - begin}, ReduceOp::kSum));
      begin = end;
    }
    for (const auto& work : works) work->Wait();
    EXPECT_TRUE(SameBits(whole, parts));
    EXPECT_TRUE(SameBits(whole, std::vector<float>(direct, direct + kElements)));
  });
}

TEST_P(CollectivesTest, HalfPrecisionIsRoundedOnce) {
  if (size() != 3) GTEST_SKIP() << "for three ranks";
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : {1, 100'000}) {
      std::vector<BFloat16> values(num_elements, BFloat16(rank.rank() == 0 ? 256.0f : 1.0f));
      group.AllReduce(BufferOfVector(values), ReduceOp::kSum)->Wait();
      for (const BFloat16 value : values) ASSERT_EQ(static_cast<float>(value), 258);
    }
  });
}

TEST_P(CollectivesTest, ReduceToEveryRoot) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : kSizes) {
      const auto inputs = AllValues<float>(num_elements);
      for (int root = 0; root < size(); ++root) {
        rank.Note(fmt::format("reduce {} to {}", num_elements, root));
        std::vector<float> input = inputs[rank.rank()];
        std::vector<float> output(num_elements, -1);
        group.Reduce(BufferOfVector(input), BufferOfVector(output), ReduceOp::kSum, root)->Wait();
        const std::vector<float> untouched(num_elements, -1);
        EXPECT_TRUE(SameBits(output, rank.rank() == root
                                         ? Expected(ReduceOp::kSum, GetParam(), inputs)
                                         : untouched));
        // In place.
        group.Reduce(BufferOfVector(input), BufferOfVector(input), ReduceOp::kSum, root)->Wait();
        EXPECT_TRUE(rank.rank() != root || SameBits(input, output));
      }
    }
  });
}

// Sums that don't depend on their order: between hosts a reduce-scatter goes in rank order.
TEST_P(CollectivesTest, ReduceScatter) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : kSizes) {
      rank.Note(fmt::format("reduce_scatter {}", num_elements));
      // The block of rank r holds r + 1 times what this rank gives.
      std::vector<float> input;
      for (int r = 0; r < size(); ++r) {
        input.insert(input.end(), num_elements, static_cast<float>((r + 1) * (rank.rank() + 1)));
      }
      const float sum = static_cast<float>((rank.rank() + 1) * size() * (size() + 1) / 2);
      std::vector<float> output(num_elements, -1);
      group.ReduceScatter(BufferOfVector(input), BufferOfVector(output), ReduceOp::kSum)->Wait();
      EXPECT_THAT(output, Each(sum));
      float* const block = input.data() + rank.rank() * num_elements;
      group.ReduceScatter(BufferOfVector(input), {block, num_elements}, ReduceOp::kSum)->Wait();
      EXPECT_TRUE(std::all_of(block, block + num_elements, [=](float x) { return x == sum; }));
    }
  });
}

TEST_P(CollectivesTest, UnevenReduceScatter) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t unit : {0, 1, 700, 100'000}) {
      const std::vector<int64_t> counts = UnevenCounts(unit);
      std::vector<BFloat16> input;
      for (int r = 0; r < size(); ++r) {
        input.insert(input.end(), counts[r], BFloat16(static_cast<float>(r + rank.rank())));
      }
      std::vector<BFloat16> output(counts[rank.rank()]);
      group.ReduceScatter(BufferOfVector(input), BufferOfVector(output), ReduceOp::kMax, counts)
          ->Wait();
      for (const BFloat16 value : output) {
        ASSERT_EQ(static_cast<float>(value), static_cast<float>(rank.rank() + size() - 1));
      }
    }
  });
}

TEST_P(CollectivesTest, BroadcastFromEveryRoot) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : kSizes) {
      for (int root = 0; root < size(); ++root) {
        rank.Note(fmt::format("broadcast {} from {}", num_elements, root));
        std::vector<double> values = ValuesOf<double>(rank.rank(), num_elements);
        group.Broadcast(BufferOfVector(values), root)->Wait();
        EXPECT_TRUE(SameBits(values, ValuesOf<double>(root, num_elements)));
      }
    }
  });
}

TEST_P(CollectivesTest, AllGather) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : kSizes) {
      rank.Note(fmt::format("all_gather {}", num_elements));
      const std::vector<int32_t> expected = Concatenate(AllValues<int32_t>(num_elements));
      std::vector<int32_t> input = ValuesOf<int32_t>(rank.rank(), num_elements);
      std::vector<int32_t> output(size() * num_elements, -1);
      group.AllGather(BufferOfVector(input), BufferOfVector(output))->Wait();
      EXPECT_EQ(output, expected);

      // In place: the input is this rank's block of the output.
      std::fill(output.begin(), output.end(), -1);
      int32_t* const block = output.data() + rank.rank() * num_elements;
      std::copy(input.begin(), input.end(), block);
      group.AllGather({block, num_elements, DType::kInt32}, BufferOfVector(output))->Wait();
      EXPECT_EQ(output, expected);
    }
  });
}

TEST_P(CollectivesTest, UnevenAllGather) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t unit : {0, 1, 700, 100'000}) {
      const std::vector<int64_t> counts = UnevenCounts(unit);
      std::vector<std::vector<uint8_t>> inputs;
      for (int r = 0; r < size(); ++r) inputs.push_back(ValuesOf<uint8_t>(r, counts[r]));
      std::vector<uint8_t> output(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
      group.AllGather(BufferOfVector(inputs[rank.rank()]), BufferOfVector(output), counts)->Wait();
      EXPECT_EQ(output, Concatenate(inputs));
    }
  });
}

TEST_P(CollectivesTest, GatherAndScatter) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t num_elements : kSizes) {
      for (int root = 0; root < size(); ++root) {
        rank.Note(fmt::format("gather and scatter {} at {}", num_elements, root));
        const std::vector<float> expected = Concatenate(AllValues<float>(num_elements));
        std::vector<float> input = ValuesOf<float>(rank.rank(), num_elements);
        std::vector<float> whole(rank.rank() == root ? size() * num_elements : 0, -1);
        group.Gather(BufferOfVector(input), BufferOfVector(whole), root)->Wait();
        EXPECT_TRUE(rank.rank() != root || SameBits(whole, expected));
        std::vector<float> output(num_elements, -1);
        group.Scatter(BufferOfVector(whole), BufferOfVector(output), root)->Wait();
        EXPECT_TRUE(SameBits(output, input));
      }
    }
  });
}

TEST_P(CollectivesTest, UnevenGatherAndScatter) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t unit : {0, 1, 700, 100'000}) {
      const std::vector<int64_t> counts = UnevenCounts(unit);
      const int root = size() - 1;
      std::vector<std::vector<double>> inputs;
      for (int r = 0; r < size(); ++r) inputs.push_back(ValuesOf<double>(r, counts[r]));
      std::vector<double> whole = Concatenate(inputs);
      if (rank.rank() == root) std::ranges::fill(whole, -1);
      group.Gather(BufferOfVector(inputs[rank.rank()]), BufferOfVector(whole), root, counts)
          ->Wait();
      EXPECT_EQ(whole, Concatenate(inputs));
      std::vector<double> output(counts[rank.rank()], -1);
      group.Scatter(BufferOfVector(whole), BufferOfVector(output), root, counts)->Wait();
      EXPECT_EQ(output, inputs[rank.rank()]);
    }
  });
}

TEST_P(CollectivesTest, AllToAll) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    const auto value = [](int from, int to) { return static_cast<int64_t>(100 * from + to); };
    for (const int64_t num_elements : kSizes) {
      rank.Note(fmt::format("all_to_all {}", num_elements));
      std::vector<int64_t> input, expected;
      for (int r = 0; r < size(); ++r) {
        input.insert(input.end(), num_elements, value(rank.rank(), r));
        expected.insert(expected.end(), num_elements, value(r, rank.rank()));
      }
      std::vector<int64_t> output(input.size(), -1);
      group.AllToAll(BufferOfVector(input), BufferOfVector(output))->Wait();
      EXPECT_EQ(output, expected);
    }
  });
}

TEST_P(CollectivesTest, UnevenAllToAll) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const int64_t unit : {0, 1, 700, 50'000}) {
      const auto count = [=](int from, int to) { return unit * ((2 * from + to) % 3); };
      std::vector<int64_t> input_counts, output_counts;
      std::vector<float> input, expected;
      for (int r = 0; r < size(); ++r) {
        input_counts.push_back(count(rank.rank(), r));
        output_counts.push_back(count(r, rank.rank()));
        input.insert(input.end(), input_counts[r], static_cast<float>(10 * rank.rank() + r));
        expected.insert(expected.end(), output_counts[r], static_cast<float>(10 * r + rank.rank()));
      }
      std::vector<float> output(expected.size(), -1);
      group.AllToAll(BufferOfVector(input), BufferOfVector(output), input_counts, output_counts)
          ->Wait();
      EXPECT_EQ(output, expected);
    }
  });
}

TEST_P(CollectivesTest, MessagesRoundTheRing) {
  if (size() == 1) GTEST_SKIP() << "there is no peer";
  Run([&](TestRank& rank, ProcessGroup& group) {
    const int next = (rank.rank() + 1) % size(), previous = (rank.rank() + size() - 1) % size();
    for (const int64_t num_elements : kSizes) {
      rank.Note(fmt::format("messages of {}", num_elements));
      std::vector<float> sent = ValuesOf<float>(rank.rank(), num_elements);
      std::vector<float> received(num_elements, -1);
      group
          .Coalesce([&] {
            group.Send(BufferOfVector(sent), next);
            group.Receive(BufferOfVector(received), previous);
          })
          ->Wait();
      EXPECT_TRUE(SameBits(received, ValuesOf<float>(previous, num_elements)));
    }
  });
}

// One after the other down the line, between other operations.
TEST_P(CollectivesTest, MessagesDownTheLine) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (int round = 0; round < 20; ++round) {
      std::vector<int32_t> value(round * 100, -1);
      const Buffer buffer = BufferOfVector(value);
      if (rank.rank() > 0) group.Receive(buffer, rank.rank() - 1)->Wait();
      if (rank.rank() == 0) std::ranges::fill(value, round);
      if (rank.rank() + 1 < size()) group.Send(buffer, rank.rank() + 1)->Wait();
      EXPECT_THAT(value, Each(round));
      if (round % 5 == 0) group.Barrier()->Wait();
    }
  });
}

TEST_P(CollectivesTest, CoalescedOperations) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::vector<std::vector<float>> buffers(20, std::vector<float>(100, 1));
    std::vector<float> large(100'000, static_cast<float>(rank.rank()));
    const auto work = group.Coalesce([&] {
      for (std::vector<float>& buffer : buffers) {
        group.AllReduce(BufferOfVector(buffer), ReduceOp::kSum);
      }
      group.Broadcast(BufferOfVector(large), size() - 1);
    });
    work->Wait();
    EXPECT_THAT(buffers, Each(Each(static_cast<float>(size()))));
    EXPECT_THAT(large, Each(static_cast<float>(size() - 1)));
    group.Coalesce([] {})->Wait();
  });
}

TEST_P(CollectivesTest, ExchangeBlobsOfAnyLength) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    for (const size_t unit : {0, 1, 100, 8170, 9000, 100'000}) {
      rank.Note(fmt::format("blobs of {} times the rank", unit));
      const auto blob_of = [&](int r) { return std::string(r * unit, static_cast<char>('a' + r)); };
      const std::vector<std::string> blobs = group.ExchangeBlobs(blob_of(rank.rank()));
      ASSERT_EQ(blobs.size(), static_cast<size_t>(size()));
      for (int r = 0; r < size(); ++r) EXPECT_TRUE(blobs[r] == blob_of(r)) << "from rank " << r;
    }
  });
}

TEST_P(CollectivesTest, BarrierWaitsForAll) {
  if (RanksAreProcesses()) GTEST_SKIP() << "the ranks count in one variable";
  std::atomic<int> arrived = 0;
  Run([&](TestRank&, ProcessGroup& group) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      if (round % 10 == 0) {
        group.MonitoredBarrier();
      } else {
        group.Barrier()->Wait();
      }
      EXPECT_GE(arrived, round * size());
      group.Barrier()->Wait();
    }
  });
}

// Many operations of all kinds under way at once, as a training step has them.
TEST_P(CollectivesTest, OperationsRunInIssueOrder) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::mt19937 random(17);  // the same choices on every rank
    for (int round = 0; round < 20; ++round) {
      rank.Note(fmt::format("round {}", round));
      std::vector<std::vector<float>> buffers;
      std::vector<std::vector<float>> expected;
      for (int i = 0; i < 10; ++i) {
        const int64_t num_elements = 1 + random() % (i % 2 == 0 ? 20'000 : 20);
        buffers.push_back(std::vector<float>(num_elements, static_cast<float>(rank.rank() + i)));
        expected.push_back(std::vector<float>(num_elements));
      }
      std::vector<std::shared_ptr<Work>> works;
      for (int i = 0; i < 10; ++i) {
        const float sum = static_cast<float>(size() * (size() - 1) / 2 + i * size());
        const int root = static_cast<int>(random() % size());
        const bool is_sum = random() % 2 == 0;
        std::ranges::fill(expected[i], is_sum ? sum : static_cast<float>(root + i));
        const Buffer buffer = BufferOfVector(buffers[i]);
        works.push_back(is_sum ? group.AllReduce(buffer, ReduceOp::kSum)
                               : group.Broadcast(buffer, root));
      }
      // Some are waited for out of order, one not at all.
      for (const int i : {7, 0, 1, 2, 3, 4, 5, 6, 9}) works[i]->Wait();
      group.Barrier()->Wait();
      EXPECT_TRUE(works[8]->IsDone());
      EXPECT_EQ(buffers, expected);
    }
  });
}

}  // namespace
}  // namespace ddp
