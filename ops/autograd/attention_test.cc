#include "ops/autograd/attention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(AttentionTest, GradientsMatchDifferences) {
  Generator generator(1);
  for (const bool causal : {true, false}) {
    for (const Shape& shape : {Shape{1, 1, 6}, Shape{2, 5, 12}, Shape{1, 19, 18}}) {
      SCOPED_TRACE(fmt::format("{}, causal {}", shape.ToString(), causal));
      const auto attention = [=](const std::vector<Tensor>& in) {
        return Attention(in[0], {.num_heads = 2, .causal = causal});
      };
      const Tensor qkv = RandomLeaf(shape, generator);
      EXPECT_TRUE(GradientsMatch(attention, {qkv}));
      EXPECT_TRUE(GradientsMatch(attention, {qkv}, {.accumulate = true}));
    }
  }
}

// The second position sees two equal keys, and takes the mean of both values.
TEST(AttentionTest, ACausalPositionSeesNothingLater) {
  const Tensor qkv = Tensor::FromVector<float>({1, 1, 10, 1, 1, 20, 1, 1, 60}, {1, 3, 3});
  EXPECT_THAT(Attention(qkv, {}).ToVector<float>(), testing::ElementsAre(10, 15, 30));
  EXPECT_THAT(Attention(qkv, {.causal = false}).ToVector<float>(),
              testing::ElementsAre(30, 30, 30));
}

TEST(AttentionTest, ScaleIsOneOverTheRootOfTheHeadWidthUnlessGiven) {
  Generator generator(1);
  const Tensor qkv = Tensor::Randn({2, 7, 24}, generator, {.dtype = DType::kFloat64});
  const Tensor expected = Attention(qkv, {.num_heads = 2, .scale = 0.5});
  EXPECT_EQ(Attention(qkv, {.num_heads = 2}).ToVector<double>(), expected.ToVector<double>());
}

TEST(AttentionTest, RefusesOtherShapes) {
  const auto refused = [](const Tensor& qkv, int64_t num_heads) {
    return [=] { Attention(qkv, {.num_heads = num_heads}); };
  };
  EXPECT_THAT(refused(Tensor::Zeros({2, 3, 18}), 4),
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("Attention"), HasSubstr("float32[2, 3, 18]"), HasSubstr("4 heads"))));
  EXPECT_THROW(refused(Tensor::Zeros({3, 18}), 2)(), std::invalid_argument);
  EXPECT_THROW(refused(Tensor::Zeros({2, 3, 18}), 0)(), std::invalid_argument);
  EXPECT_THROW(refused(Tensor::Zeros({2, 3, 18}, {DType::kInt64}), 2)(), std::invalid_argument);
  EXPECT_THROW(refused(Tensor(), 2)(), std::invalid_argument);
}

TEST(RotaryEmbeddingTest, GradientsMatchDifferences) {
  Generator generator(1);
  const auto rotate = [](const std::vector<Tensor>& in) {
    return RotaryEmbedding(in[0], {.num_heads = 2, .base = 100, .first_position = 3});
  };
  for (const Shape& shape : {Shape{1, 1, 12}, Shape{2, 5, 24}, Shape{2, 0, 12}}) {
    const Tensor qkv = RandomLeaf(shape, generator);
    EXPECT_TRUE(GradientsMatch(rotate, {qkv}));
    EXPECT_TRUE(GradientsMatch(rotate, {qkv}, {.accumulate = true}));
  }
}

// What the embedding is for: scores depend on the distance of positions alone.
TEST(RotaryEmbeddingTest, AttentionIsTheSameWhereverTheSequenceBegins) {
  Generator generator(1);
  const Tensor qkv = Tensor::Randn({1, 9, 24}, generator, {.dtype = DType::kFloat64});
  const auto attention = [&](int64_t first_position) {
    const RotaryOptions options = {.num_heads = 2, .first_position = first_position};
    return Attention(RotaryEmbedding(qkv, options), {.num_heads = 2}).ToVector<double>();
  };
  EXPECT_THAT(attention(1000), testing::Pointwise(testing::DoubleNear(1e-12), attention(0)));
}

TEST(RotaryEmbeddingTest, RefusesHeadsOfOddWidth) {
  EXPECT_THAT(
      [] {
        RotaryEmbedding(Tensor::Zeros({1, 2, 18}), {.num_heads = 2});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("heads of 3")));
}

}  // namespace
}  // namespace ops
