#include "ops/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Tensor Counting(const Shape& shape) {
  std::vector<float> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::FromVector(values, shape);
}

TEST(TensorTest, KnowsShapeTypeAndSize) {
  const Tensor x = Tensor::Zeros({3, 5}, {.dtype = DType::kFloat64});
  EXPECT_EQ(x.shape(), (Shape{3, 5}));
  EXPECT_EQ(x.dim(-1), 5);
  EXPECT_EQ(x.num_elements(), 15);
  EXPECT_EQ(x.num_bytes(), 120);
  EXPECT_EQ(x.Describe(), "float64[3, 5]");
  EXPECT_EQ(Tensor().Describe(), "undefined tensor");
  EXPECT_FALSE(Tensor().defined());
}

TEST(TensorTest, MakesTensorsOfEveryDType) {
  for (DType dtype : kAllDTypes) {
    EXPECT_THAT(Tensor::Full({17}, 3, {.dtype = dtype}).ToVector<double>(), Each(3.0));
    EXPECT_THAT(Tensor::Zeros({17}, {.dtype = dtype}).ToVector<int32_t>(), Each(0));
    EXPECT_EQ(Tensor::Scalar(2, {.dtype = dtype}).Item(), 2);
    EXPECT_THAT(Tensor::Zeros({0, 3}, {.dtype = dtype}).ToVector<float>(), IsEmpty());
  }
}

TEST(TensorTest, FromVectorCopies) {
  std::vector<int64_t> values = {1, 2, 3};
  const Tensor x = Tensor::FromVector(values, {3});
  values[0] = 9;
  EXPECT_THAT(x.elements<int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(
      [&] {
        Tensor::FromVector(values, {2, 2});
      },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("3"), HasSubstr("[2, 2]"))));
}

TEST(TensorTest, CopiesOfAHandleShareElements) {
  const Tensor x = Counting({4});
  const Tensor y = x;
  y.data<float>()[2] = 7;
  EXPECT_THAT(x.elements<float>(), ElementsAre(0, 1, 7, 3));
  EXPECT_TRUE(x.IsSameAs(y));
  EXPECT_FALSE(x.IsSameAs(x.Detach()));
}

TEST(TensorTest, ReadingAnotherDTypeThrows) {
  EXPECT_THAT(
      [] { Counting({4}).data<double>(); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("float32[4]"), HasSubstr("float64"))));
}

TEST(TensorTest, ViewsAndSlicesShareMemory) {
  const Tensor x = Counting({3, 4});
  const Tensor rows = x.Slice(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 4}));
  const Tensor last = rows.Slice(1, 2).View({2, 2});
  EXPECT_THAT(last.elements<float>(), ElementsAre(8, 9, 10, 11));
  last.FillZero();
  EXPECT_EQ(x.data<float>()[11], 0);
  EXPECT_EQ(x.data<float>()[7], 7);
  EXPECT_EQ(x.Slice(3, 3).num_elements(), 0);
}

TEST(TensorTest, AViewKeepsTheMemory) {
  Tensor row;
  {
    const Tensor x = Counting({100, 100});
    row = x.Slice(99, 100);
  }
  EXPECT_EQ(row.data<float>()[99], 9999);
}

TEST(TensorTest, ViewsOfAnotherSizeThrow) {
  const Tensor x = Counting({3, 4});
  EXPECT_THAT([&] { x.View({5}); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("[3, 4]"), HasSubstr("[5]"))));
  for (const auto& range : {std::pair{-1, 2}, {2, 1}, {0, 4}, {4, 4}}) {
    EXPECT_THAT(([&] { x.Slice(range.first, range.second); }),
                ThrowsMessage<std::invalid_argument>(HasSubstr("[3, 4]")));
  }
  EXPECT_THROW(Tensor::Scalar(1).Slice(0, 1), std::invalid_argument);
}

TEST(TensorTest, CloneHasMemoryOfItsOwn) {
  const Tensor x = Counting({3});
  const Tensor copy = x.Clone();
  x.Fill(5);
  EXPECT_THAT(copy.elements<float>(), ElementsAre(0, 1, 2));
}

TEST(TensorTest, ConvertsBetweenAllDTypes) {
  for (DType from : kAllDTypes) {
    const Tensor x = Counting({17}).To(from);
    EXPECT_EQ(x.dtype(), from);
    for (DType to : kAllDTypes) {
      EXPECT_EQ(x.To(to).ToVector<float>(), Counting({17}).ToVector<float>())
          << Name(from) << " to " << Name(to);
    }
  }
}

TEST(TensorTest, ConversionRoundsToNearestAndTowardsZero) {
  const Tensor x = Tensor::FromVector<double>({-1.75, 1.75, 1 + 0x1p-9}, {3});
  EXPECT_THAT(x.To(DType::kInt32).elements<int32_t>(), ElementsAre(-1, 1, 1));
  EXPECT_THAT(x.To(DType::kBFloat16).ToVector<double>(), ElementsAre(-1.75, 1.75, 1));
  EXPECT_EQ(Tensor::Scalar(16777217, {.dtype = DType::kInt64}).To(DType::kFloat32).Item(),
            16777216);
}

TEST(TensorTest, CopyFromNeedsTheSameShape) {
  const Tensor x = Counting({2, 2});
  x.CopyFrom(Tensor::FromVector<int32_t>({4, 3, 2, 1}, {2, 2}));
  EXPECT_THAT(x.elements<float>(), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT([&] { x.CopyFrom(Counting({4})); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("float32[4]"), HasSubstr("float32[2, 2]"))));
}

TEST(TensorTest, ItemNeedsOneElement) {
  EXPECT_EQ(Tensor::Full({1, 1}, 2.5).Item(), 2.5);
  EXPECT_THAT([] { Counting({2}).Item(); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("float32[2]")));
  EXPECT_THROW(Counting({0}).Item(), std::invalid_argument);
}

TEST(TensorTest, WrapUsesTheGivenMemoryAndKeepsIt) {
  auto values = std::make_shared<std::vector<float>>(4, 1.5f);
  std::weak_ptr<std::vector<float>> alive = values;
  Tensor x = Tensor::Wrap(Memory(values, reinterpret_cast<std::byte*>(values->data())), {2, 2});
  (*values)[3] = 2;
  values.reset();
  EXPECT_THAT(x.elements<float>(), ElementsAre(1.5, 1.5, 1.5, 2));
  x = Tensor();
  EXPECT_TRUE(alive.expired());
}

struct CountingMeta : TensorMeta {
  explicit CountingMeta(int& alive) : alive(alive) { ++alive; }
  ~CountingMeta() override { --alive; }
  int& alive;
};

TEST(TensorTest, MetaGoesWithTheLastHandleAndNotToViews) {
  int alive = 0;
  Tensor x = Counting({2});
  x.set_meta(std::make_shared<CountingMeta>(alive));
  Tensor same = x;
  const Tensor view = x.View({1, 2}), detached = x.Detach();
  EXPECT_NE(same.meta(), nullptr);
  EXPECT_EQ(view.meta(), nullptr);
  EXPECT_EQ(detached.meta(), nullptr);
  EXPECT_EQ(alive, 1);
  x = Tensor();
  EXPECT_EQ(alive, 1);
  same = Tensor();
  EXPECT_EQ(alive, 0);
}

TEST(WeakTensorTest, LocksWhileAHandleLives) {
  Tensor x = Counting({2});
  const WeakTensor weak(x);
  EXPECT_TRUE(weak.Lock().IsSameAs(x));
  x = Tensor();
  EXPECT_FALSE(weak.Lock().defined());
}

TEST(MemoryTest, LargeMemoryStartsOnACacheLine) {
  for (int64_t bytes : {1025, 4096, 1 << 20}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(AllocateMemory(bytes).get()) % 64, 0u) << bytes;
  }
  for (int64_t bytes : {0, 1, 16, 1024}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(AllocateMemory(bytes).get()) % 16, 0u) << bytes;
  }
}

}  // namespace
}  // namespace ops
