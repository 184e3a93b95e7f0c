// The right values, to the last bit, for every operation, dtype and number of ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/testing.h"

namespace ddp {
namespace {

using ops::BFloat16;
using ops::DType;
using ops::Float16;
using testing::ElementsAre;

template <class T>
Buffer BufferOfVector(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), ops::kDTypeOf<T>};
}

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

// Written without the library's kernels: what the contract says, an element at a time.
template <class T>
T ExpectedElement(ReduceOp op, const std::vector<std::vector<T>>& ranks, int64_t i) {
  using Wide = std::conditional_t<std::is_integral_v<T>, int64_t,
                                  std::conditional_t<std::is_same_v<T, double>, double, float>>;
  Wide result = static_cast<Wide>(ranks[0][i]);
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const Wide next = static_cast<Wide>(ranks[rank][i]);
    if (op == ReduceOp::kMin) result = std::min(result, next);
    if (op == ReduceOp::kMax) result = std::max(result, next);
    if (op == ReduceOp::kSum || op == ReduceOp::kAverage) result += next;
  }
  if (op == ReduceOp::kAverage) result /= static_cast<Wide>(ranks.size());
  return static_cast<T>(result);
}

constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax};
constexpr int64_t kSizes[] = {0, 1, 3, 17, 1000, (1 << 20) + 3};

class CollectivesTest : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesTest, testing::Values(1, 2, 3, 4));

TEST_P(CollectivesTest, AllReduceEveryDTypeOpAndSize) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    for (const DType dtype : ops::kAllDTypes) {
      ops::Dispatch(dtype, [&]<class T>() {
        for (const int64_t num_elements : kSizes) {
          std::vector<std::vector<T>> inputs;
          for (int r = 0; r < size(); ++r) inputs.push_back(ValuesOf<T>(r, num_elements));
          for (const ReduceOp op : kAllOps) {
            // The largest size once per dtype is enough.
            if (num_elements > 1000 && op != ReduceOp::kSum) continue;
            rank.Note(fmt::format("all_reduce {} {} of {}", Name(op), Name(dtype), num_elements));
            std::vector<T> values = inputs[rank.rank()];
            group->AllReduce(BufferOfVector(values), op)->Wait();
            std::vector<T> expected(num_elements);
            for (int64_t i = 0; i < num_elements; ++i) expected[i] = ExpectedElement(op, inputs, i);
            EXPECT_TRUE(SameBits(values, expected))
                << Name(op) << " of " << num_elements << " " << Name(dtype);
          }
        }
      });
    }
  });
}

TEST_P(CollectivesTest, HowItIsCutUpDoesNotChangeABit) {
  constexpr int64_t kElements = 300'007;
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    std::vector<float> whole = ValuesOf<float>(rank.rank(), kElements);
    std::vector<float> parts = whole;
    group->AllReduce(BufferOfVector(whole), ReduceOp::kSum)->Wait();
    std::vector<std::shared_ptr<Work>> works;
    int64_t begin = 0;
    for (int64_t step = 1; begin < kElements; step = step * 3 + 1) {
      const int64_t end = std::min(begin + step, kElements);
      works.push_back(group->AllReduce({parts.data() + begin, end - begin}, ReduceOp::kSum));
      begin = end;
    }
    for (const auto& work : works) work->Wait();
    EXPECT_TRUE(SameBits(whole, parts));
  });
}

TEST(CollectivesTest, SumsRunInRankOrder) {
  RunRanks(4, [](TestRank& rank) {
    const auto group = rank.Join();
    constexpr float kValues[] = {1e8f, 1, -1e8f, 1};
    for (const int64_t num_elements : {1, 100'000}) {
      std::vector<float> values(num_elements, kValues[rank.rank()]);
      group->AllReduce(BufferOfVector(values), ReduceOp::kSum)->Wait();
      EXPECT_THAT(values, testing::Each(1.0f));
    }
  });
}

TEST(CollectivesTest, HalfPrecisionIsRoundedOnce) {
  RunRanks(3, [](TestRank& rank) {
    const auto group = rank.Join();
    for (const int64_t num_elements : {1, 100'000}) {
      std::vector<BFloat16> values(num_elements, BFloat16(rank.rank() == 0 ? 256.0f : 1.0f));
      group->AllReduce(BufferOfVector(values), ReduceOp::kSum)->Wait();
      for (const BFloat16 value : values) ASSERT_EQ(static_cast<float>(value), 258);
    }
  });
}

TEST_P(CollectivesTest, BroadcastFromEveryRoot) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    for (const int64_t num_elements : kSizes) {
      for (int root = 0; root < size(); ++root) {
        rank.Note(fmt::format("broadcast {} from {}", num_elements, root));
        std::vector<double> values = ValuesOf<double>(rank.rank(), num_elements);
        group->Broadcast(BufferOfVector(values), root)->Wait();
        EXPECT_TRUE(SameBits(values, ValuesOf<double>(root, num_elements)));
      }
    }
  });
}

TEST_P(CollectivesTest, AllGather) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    for (const int64_t num_elements : kSizes) {
      rank.Note(fmt::format("all_gather {}", num_elements));
      std::vector<int32_t> expected;
      for (int r = 0; r < size(); ++r) {
        const auto theirs = ValuesOf<int32_t>(r, num_elements);
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      std::vector<int32_t> input = ValuesOf<int32_t>(rank.rank(), num_elements);
      std::vector<int32_t> output(size() * num_elements, -1);
      group->AllGather(BufferOfVector(input), BufferOfVector(output))->Wait();
      EXPECT_EQ(output, expected);

      // In place: the input is this rank's block of the output.
      std::fill(output.begin(), output.end(), -1);
      int32_t* const block = output.data() + rank.rank() * num_elements;
      std::copy(input.begin(), input.end(), block);
      group->AllGather({block, num_elements, DType::kInt32}, BufferOfVector(output))->Wait();
      EXPECT_EQ(output, expected);
    }
  });
}

TEST_P(CollectivesTest, ExchangeBlobsOfAnyLength) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    for (const size_t unit : {0, 1, 100, 8170, 9000, 100'000}) {
      rank.Note(fmt::format("blobs of {} times the rank", unit));
      const auto blob_of = [&](int r) { return std::string(r * unit, static_cast<char>('a' + r)); };
      const std::vector<std::string> blobs = group->ExchangeBlobs(blob_of(rank.rank()));
      ASSERT_EQ(blobs.size(), static_cast<size_t>(size()));
      for (int r = 0; r < size(); ++r) EXPECT_TRUE(blobs[r] == blob_of(r)) << "from rank " << r;
    }
  });
}

TEST_P(CollectivesTest, BarrierWaitsForAll) {
  std::atomic<int> arrived = 0;
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      group->Barrier()->Wait();
      EXPECT_GE(arrived, round * size());
      group->Barrier()->Wait();
    }
  });
}

// Many operations of all kinds under way at once, as a training step has them.
TEST_P(CollectivesTest, OperationsRunInIssueOrder) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join();
    std::mt19937 random(17);  // the same choices on every rank
    for (int round = 0; round < 20; ++round) {
      rank.Note(fmt::format("round {}", round));
      std::vector<std::vector<float>> buffers;
      std::vector<std::vector<float>> expected;
      for (int i = 0; i < 10; ++i) {
        const int64_t num_elements = 1 + random() % 20'000;
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
        works.push_back(is_sum ? group->AllReduce(buffer, ReduceOp::kSum)
                               : group->Broadcast(buffer, root));
      }
      // Some are waited for out of order, one not at all.
      for (const int i : {7, 0, 1, 2, 3, 4, 5, 6, 9}) works[i]->Wait();
      group->Barrier()->Wait();
      EXPECT_TRUE(works[8]->IsDone());
      EXPECT_EQ(buffers, expected);
    }
  });
}

TEST(CollectivesTest, TensorsAndAllocatedMemory) {
  RunRanks(2, [](TestRank& rank) {
    std::shared_ptr<std::byte> memory;
    {
      const auto group = rank.Join();
      memory = group->Allocate(4 * sizeof(float), ops::Device::Cpu());
      const ops::Tensor tensor = ops::Tensor::Wrap(memory, {4});
      tensor.Fill(rank.rank() + 1);
      group->AllReduce(BufferOf(tensor), ReduceOp::kAverage)->Wait();
      EXPECT_THAT(tensor.ToVector<float>(), ElementsAre(1.5f, 1.5f, 1.5f, 1.5f));
    }
    EXPECT_EQ(*reinterpret_cast<float*>(memory.get()), 1.5f);  // lives beyond the group
  });
}

}  // namespace
}  // namespace ddp
