#include "ops/cpu/flat_range.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ops::cpu {
namespace {

using Parts = std::vector<std::pair<int64_t, int64_t>>;  // from, to

Parts PartsOf(const FlatRange& range, int64_t begin, int64_t end) {
  Parts parts;
  range.ForEachPart(begin, end, [&](const FlatSegment&, int64_t from, int64_t to) {
    parts.emplace_back(from, to);
  });
  return parts;
}

TEST(FlatRangeTest, NeighboursInMemoryBecomeOneSegment) {
  const Tensor parameters = Tensor::Zeros({10}), gradients = Tensor::Zeros({10});
  FlatRange range(DType::kFloat32);
  range.Add(parameters.Slice(0, 4), gradients.Slice(0, 4), 0, 1);
  range.Add(parameters.Slice(4, 7), gradients.Slice(4, 7), 4, 1);
  ASSERT_EQ(range.segments().size(), 1u);
  EXPECT_EQ(range.segments()[0].count, 7);
  range.Add(parameters.Slice(7, 10), gradients.Slice(7, 10), 7, 2);  // another step
  EXPECT_EQ(range.segments().size(), 2u);
  EXPECT_EQ(range.num_elements(), 10);
}

TEST(FlatRangeTest, RowsThatFollowEachOtherBecomeOneSegment) {
  const Tensor table = Tensor::Zeros({5, 3}), rows = Tensor::Zeros({3, 3});
  FlatRange range(DType::kFloat32);
  range.AddRows(table, Tensor::FromVector<int64_t>({0, 3, 4}, {3}), rows, 100, 1);
  ASSERT_EQ(range.segments().size(), 2u);
  EXPECT_EQ(range.num_elements(), 9);
  const FlatSegment& second = range.segments()[1];
  EXPECT_EQ(second.begin, 3);
  EXPECT_EQ(second.count, 6);
  EXPECT_EQ(second.parameter, table.Slice(3, 4).raw_data());
  EXPECT_EQ(second.gradient, rows.Slice(1, 2).raw_data());
  EXPECT_EQ(second.state_begin, 109);
}

TEST(FlatRangeTest, AGapInParametersGradientsOrStatesBeginsASegment) {
  const Tensor parameters = Tensor::Zeros({10}), gradients = Tensor::Zeros({10});
  const auto num_segments = [&](int64_t parameter, int64_t gradient, int64_t state) {
    FlatRange range(DType::kFloat32);
    range.Add(parameters.Slice(0, 4), gradients.Slice(0, 4), 0, 1);
    range.Add(parameters.Slice(parameter, parameter + 2), gradients.Slice(gradient, gradient + 2),
              state, 1);
    return range.segments().size();
  };
  EXPECT_EQ(num_segments(4, 4, 4), 1u);
  EXPECT_EQ(num_segments(5, 4, 4), 2u);
  EXPECT_EQ(num_segments(4, 5, 4), 2u);
  EXPECT_EQ(num_segments(4, 4, 5), 2u);
}

TEST(FlatRangeTest, WithoutGradientsParametersAndStatesDecide) {
  const Tensor parameters = Tensor::Zeros({10});
  FlatRange range(DType::kFloat32);
  range.Add(parameters.Slice(0, 4), {}, 0, 0);
  range.Add(parameters.Slice(4, 6), {}, 4, 0);
  EXPECT_EQ(range.segments().size(), 1u);
  range.Add(parameters.Slice(6, 10), parameters.Slice(6, 10), 6, 0);
  EXPECT_EQ(range.segments().size(), 2u);
}

TEST(FlatRangeTest, PartsOfARangeAreThoseOfItsSegments) {
  FlatRange range(DType::kFloat64);
  const Tensor a = Tensor::Zeros({3}, {.dtype = DType::kFloat64}), b = a.Clone(), c = a.Clone();
  const Tensor nothing = Tensor::Zeros({0}, {.dtype = DType::kFloat64});
  for (const Tensor& tensor : {a, nothing, b, c}) range.Add(tensor, tensor, 0, 1);
  EXPECT_EQ(range.num_elements(), 9);
  EXPECT_EQ(PartsOf(range, 0, 9), (Parts{{0, 3}, {0, 3}, {0, 3}}));
  EXPECT_EQ(PartsOf(range, 2, 4), (Parts{{2, 3}, {0, 1}}));
  EXPECT_EQ(PartsOf(range, 3, 6), (Parts{{0, 3}}));
  EXPECT_EQ(PartsOf(range, 7, 8), (Parts{{1, 2}}));
  range.Clear();
  EXPECT_EQ(range.num_elements(), 0);
}

}  // namespace
}  // namespace ops::cpu
