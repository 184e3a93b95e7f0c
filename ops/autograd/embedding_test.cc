#include "ops/autograd/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(EmbeddingTest, Values) {
  const Tensor table = SetRequiresGrad(Tensor::FromVector<float>({0, 1, 2, 3, 4, 5}, {3, 2}));
  const Tensor y = Embedding(Tensor::FromVector<int64_t>({2, 0, 2, 2}, {2, 2}), table);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(y.ToVector<float>(), ElementsAre(4, 5, 0, 1, 4, 5, 4, 5));
  Backward(y, Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}));
  EXPECT_THAT(Grad(table).ToVector<float>(), ElementsAre(3, 4, 0, 0, 13, 16));
}

TEST(EmbeddingTest, GradientsMatchDifferences) {
  Generator generator(1);
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 3}}) {
    SCOPED_TRACE(shape.ToString());
    std::vector<int64_t> values(shape.num_elements());
    for (int64_t& value : values) value = static_cast<int64_t>(generator.Below(3));
    const auto call = [ids = Tensor::FromVector(values, shape)](const std::vector<Tensor>& in) {
      return Embedding(ids, in[0]);
    };
    const Tensor table = RandomLeaf({3, 4}, generator);
    EXPECT_TRUE(GradientsMatch(call, {table}));
    EXPECT_TRUE(GradientsMatch(call, {table}, {.accumulate = true}));
  }
}

// As in a model whose head is its embedding.
TEST(EmbeddingTest, GradientsOfATableWithTwoUses) {
  Generator generator(1);
  const Tensor ids = Tensor::FromVector<int64_t>({2, 0, 2}, {3});
  EXPECT_TRUE(GradientsMatch(
      [&](const std::vector<Tensor>& in) { return Linear(Embedding(ids, in[0]), in[0], {}); },
      {RandomLeaf({4, 5}, generator)}));
}

TEST(EmbeddingTest, ThePaddingRowGetsNoGradient) {
  const Tensor table = SetRequiresGrad(Tensor::Full({3, 1}, 7));
  const Tensor y = Embedding(Tensor::FromVector<int64_t>({1, 0, 1}, {3}), table, 1);
  EXPECT_THAT(y.ToVector<float>(), ElementsAre(7, 7, 7));
  Backward(y, Tensor::Full({3, 1}, 1));
  EXPECT_THAT(Grad(table).ToVector<float>(), ElementsAre(1, 0, 0));
}

TEST(EmbeddingTest, RefusesWhatDoesntFit) {
  const auto refused = [](auto... parts) {
    return ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(parts)...));
  };
  const Tensor table = Tensor::Zeros({3, 2}), ids = Tensor::Zeros({2}, {DType::kInt64});
  EXPECT_THAT([&] { Embedding(table, table); }, refused("int64 ids", "float32[3, 2]"));
  EXPECT_THAT([&] { Embedding(ids, ids); }, refused("[count, width]", "int64[2]"));
  EXPECT_THAT([&] { Embedding(ids, table, 3); }, refused("padding id 3", "[3, 2]"));
  EXPECT_THAT([&] { Embedding(Tensor::Full({2}, 3, {DType::kInt64}), table); },
              refused("id 0 is 3", "[0, 3)"));
  EXPECT_THROW(Embedding({}, table), std::invalid_argument);
}

}  // namespace
}  // namespace ops
