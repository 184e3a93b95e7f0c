// The right values of every operation, with ranks as threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "ddp/collectives/shm/test_buffer.h"
#include "ddp/collectives/shm/testing.h"

namespace ddp::shm {
namespace {

using Kind = OperationKind;
using Counts = std::vector<int64_t>;

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

}  // namespace
}  // namespace ddp::shm
