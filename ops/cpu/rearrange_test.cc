#include "ops/cpu/rearrange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

// Distinct values, as far as the dtype has them.
Tensor Counting(const Shape& shape, DType dtype) {
  std::vector<int64_t> values(shape.num_elements());
  std::iota(values.begin(), values.end(), 1);
  if (dtype != DType::kFloat64 && dtype != DType::kInt64) {
    for (int64_t& value : values) value %= 251;
  }
  const Tensor tensor = Misaligned(shape, dtype);
  tensor.CopyFrom(Tensor::FromVector(values, shape));
  return tensor;
}

// The indices of an element, outermost first.
std::vector<int64_t> IndexOf(int64_t element, const Shape& shape) {
  std::vector<int64_t> index(shape.rank());
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[i] = element % shape.dim(i);
    element /= shape.dim(i);
  }
  return index;
}

int64_t ElementAt(const std::vector<int64_t>& index, const Shape& shape) {
  int64_t element = 0;
  for (int i = 0; i < shape.rank(); ++i) element = element * shape.dim(i) + index[i];
  return element;
}

Shape PermutedShape(const Shape& shape, const std::vector<int>& dims) {
  std::vector<int64_t> extents;
  for (const int dim : dims) extents.push_back(shape.dim(dim));
  return Shape(std::span<const int64_t>(extents));
}

void ExpectPermutes(const Shape& shape, const std::vector<int>& dims, DType dtype,
                    bool accumulate) {
  SCOPED_TRACE(shape.ToString() + std::string(Name(dtype)));
  const Tensor x = Counting(shape, dtype);
  const Tensor out = Misaligned(PermutedShape(shape, dims), dtype);
  out.Fill(1);
  const auto values = x.ToVector<double>();
  Permute(x, dims, out, accumulate);
  const auto permuted = out.ToVector<double>();
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    const auto index = IndexOf(i, out.shape());
    std::vector<int64_t> from(index.size());
    for (size_t d = 0; d < dims.size(); ++d) from[dims[d]] = index[d];
    ASSERT_EQ(permuted[i], values[ElementAt(from, shape)] + (accumulate ? 1 : 0)) << i;
  }
}

TEST(PermuteTest, EveryOrderOfDimensions) {
  ForEachIsa([] {
    for (const DType dtype : kAllDTypes) {
      for (const Shape& shape :
           {Shape{}, Shape{0}, Shape{7}, Shape{33, 18}, Shape{2, 0, 3}, Shape{5, 17, 3},
            Shape{16, 1, 64}, Shape{3, 2, 4, 5}, Shape{2, 3, 1, 2, 3, 2}}) {
        std::vector<int> dims(shape.rank());
        std::iota(dims.begin(), dims.end(), 0);
        do {
          ExpectPermutes(shape, dims, dtype, false);
        } while (std::ranges::next_permutation(dims).found);
      }
    }
  });
}

TEST(PermuteTest, LargePlanes) {
  ForEachIsa([] {
    for (const DType dtype : kAllDTypes) {
      ExpectPermutes({300, 211}, {1, 0}, dtype, false);
      ExpectPermutes({3, 100, 130}, {2, 0, 1}, dtype, false);
      ExpectPermutes({2, 5000, 3}, {0, 2, 1}, dtype, false);
    }
  });
}

TEST(PermuteTest, AddsToWhatIsThere) {
  ForEachIsa([] {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      ExpectPermutes({33, 18}, {1, 0}, dtype, true);
      ExpectPermutes({5, 17, 3}, {1, 0, 2}, dtype, true);
    }
  });
}

TEST(PermuteTest, BitsOfNanStay) {
  const Tensor x = Tensor::FromVector<int32_t>({0x7fa12345, 2, 3, 4}, {2, 2});
  const Tensor as_float = Tensor::Wrap(x.memory(), {2, 2});
  const Tensor out = Tensor::Empty({2, 2});
  Permute(as_float, std::vector<int>{1, 0}, out);
  EXPECT_EQ(BytesOf(out).substr(0, 4), BytesOf(x).substr(0, 4));
}

TEST(PermuteTest, ThreadsDoNotChangeBits) {
  const Tensor x = RandomTensor({7, 300, 211}, DType::kFloat32, 1);
  for (const std::vector<int>& dims : {std::vector{0, 2, 1}, {2, 1, 0}, {1, 0, 2}}) {
    ExpectSameBitsOnThreads([&] {
      const Tensor out = Tensor::Empty(PermutedShape(x.shape(), dims));
      Permute(x, dims, out);
      return out;
    });
  }
}

TEST(ExpandTest, RepeatsWhatIsLacking) {
  const std::pair<Shape, Shape> kShapes[] = {
      {{}, {3, 40}},    {{4}, {3, 4}}, {{3, 1}, {3, 40}}, {{2, 1, 5, 1}, {3, 2, 4, 5, 2}},
      {{3, 4}, {3, 4}}, {{1}, {0}},    {{}, {}},          {{1, 4}, {40'000, 4}},
  };
  ForEachIsa([&] {
    for (const DType dtype : kAllDTypes) {
      for (const auto& [from, to] : kShapes) {
        SCOPED_TRACE(from.ToString() + " to " + to.ToString());
        const Tensor x = Counting(from, dtype), out = Misaligned(to, dtype);
        Expand(x, out);
        const auto values = x.ToVector<double>(), expanded = out.ToVector<double>();
        for (int64_t i = 0; i < out.num_elements(); ++i) {
          std::vector<int64_t> index = IndexOf(i, to);
          index.erase(index.begin(), index.end() - from.rank());
          for (int d = 0; d < from.rank(); ++d) index[d] = from.dim(d) == 1 ? 0 : index[d];
          ASSERT_EQ(expanded[i], values[ElementAt(index, from)]);
        }
      }
    }
  });
}

struct Box {
  Shape whole, extents;
  BoxBegin begin;
};

const Box kBoxes[] = {
    {{}, {}, {}},
    {{5}, {3}, {1}},
    {{5}, {0}, {5}},
    {{4, 6}, {4, 6}, {}},
    {{4, 6}, {2, 6}, {1, 0}},
    {{4, 6}, {4, 1}, {0, 5}},
    {{4, 6}, {1, 1}, {2, 3}},
    {{4, 6}, {2, 0}, {1, 3}},
    {{3, 4, 5}, {3, 2, 5}, {0, 1, 0}},
    {{3, 4, 5}, {1, 2, 3}, {2, 1, 1}},
    {{2, 3, 4, 5}, {2, 3, 2, 5}, {0, 0, 2, 0}},
    {{2, 3, 4, 5}, {1, 3, 2, 1}, {1, 0, 2, 4}},
    {{300, 200}, {300, 99}, {0, 101}},
    {{40'000, 3}, {39'000, 3}, {1000, 0}},
};

// Calls f(element of the whole, element of the box), the second -1 outside.
template <class F>
void ForEachElement(const Box& box, F f) {
  for (int64_t i = 0; i < box.whole.num_elements(); ++i) {
    std::vector<int64_t> index = IndexOf(i, box.whole);
    bool is_inside = true;
    for (int d = 0; d < box.whole.rank(); ++d) {
      index[d] -= box.begin[d];
      is_inside &= index[d] >= 0 && index[d] < box.extents.dim(d);
    }
    f(i, is_inside ? ElementAt(index, box.extents) : -1);
  }
}

TEST(CopyBoxTest, OutOfTheWholeAndBackIntoIt) {
  ForEachIsa([] {
    for (const DType dtype : kAllDTypes) {
      for (const Box& box : kBoxes) {
        SCOPED_TRACE(box.whole.ToString() + box.extents.ToString());
        const Tensor whole = Counting(box.whole, dtype), part = Misaligned(box.extents, dtype);
        CopyBox(whole, box.begin, part, {}, box.extents);
        const Tensor back = Misaligned(box.whole, dtype);
        back.Fill(7);
        CopyBox(part, {}, back, box.begin, box.extents);
        const auto all = whole.ToVector<double>(), some = part.ToVector<double>();
        const auto again = back.ToVector<double>();
        ForEachElement(box, [&](int64_t i, int64_t inside) {
          ASSERT_EQ(inside >= 0 ? some[inside] : all[i], all[i]);
          ASSERT_EQ(again[i], inside >= 0 ? all[i] : 7);
        });
      }
    }
  });
}

TEST(CopyBoxTest, AddsToWhatIsThere) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const Box& box : kBoxes) {
        SCOPED_TRACE(box.whole.ToString() + box.extents.ToString());
        const Tensor whole = Misaligned(box.whole, dtype), part = Counting(box.extents, dtype);
        whole.Fill(2);
        CopyBox(part, {}, whole, box.begin, box.extents, /*accumulate=*/true);
        const auto all = whole.ToVector<double>(), some = part.ToVector<double>();
        ForEachElement(box, [&](int64_t i, int64_t inside) {
          ASSERT_EQ(all[i], 2 + (inside >= 0 ? some[inside] : 0));
        });
        part.Fill(1);
        CopyBox(whole, box.begin, part, {}, box.extents, /*accumulate=*/true);
        const auto more = part.ToVector<double>();
        ForEachElement(box, [&](int64_t i, int64_t inside) {
          if (inside < 0) return;
          ASSERT_NEAR(more[inside], 1 + all[i], 1);  // bfloat16 doesn't have all integers
        });
      }
    }
  });
}

TEST(FillOutsideTest, LeavesTheBox) {
  for (const DType dtype : kAllDTypes) {
    for (const double value : {0.0, 3.0}) {
      for (const Box& box : kBoxes) {
        SCOPED_TRACE(box.whole.ToString() + box.extents.ToString());
        const Tensor whole = Misaligned(box.whole, dtype);
        whole.Fill(9);
        FillOutside(whole, box.begin, box.extents, value);
        const auto all = whole.ToVector<double>();
        ForEachElement(
            box, [&](int64_t i, int64_t inside) { ASSERT_EQ(all[i], inside >= 0 ? 9 : value); });
      }
    }
  }
}

TEST(CopyBoxTest, ThreadsDoNotChangeBits) {
  const Tensor x = RandomTensor({300, 7, 211}, DType::kFloat32, 1);
  const Shape extents{300, 3, 211};
  const BoxBegin begin = {0, 2, 0};
  ExpectSameBitsOnThreads([&] {
    const Tensor out = x.Clone();
    FillOutside(out, begin, extents, 0);
    CopyBox(x, begin, out, begin, extents, /*accumulate=*/true);
    return out;
  });
}

}  // namespace
}  // namespace ops::cpu
