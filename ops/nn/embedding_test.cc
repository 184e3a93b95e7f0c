#include "ops/nn/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/autograd/grad.h"

namespace ops::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(EmbeddingTest, DrawsFromTheNormalDistribution) {
  Generator generator(4), same(4);
  const Embedding embedding(16, 7, {.generator = &generator});
  const Tensor expected = Tensor::Empty({16, 7});
  same.FillNormal(expected, 0, 1);
  EXPECT_EQ(embedding.weight.ToVector<float>(), expected.ToVector<float>());
  EXPECT_EQ(embedding.Parameters().at(0).name, "weight");
}

TEST(EmbeddingTest, LooksRowsUp) {
  Embedding embedding(3, 2);
  embedding.LoadStateDict({{"weight", Tensor::FromVector<float>({0, 1, 2, 3, 4, 5}, {3, 2})}});
  const Tensor y = embedding.Forward(Tensor::FromVector<int64_t>({2, 0}, {2, 1}));
  EXPECT_EQ(y.shape(), (Shape{2, 1, 2}));
  EXPECT_THAT(y.ToVector<float>(), ElementsAre(4, 5, 0, 1));
}

TEST(EmbeddingTest, ThePaddingRowStartsAtZeroAndStays) {
  Embedding embedding(3, 1, {.padding_id = 1});
  EXPECT_EQ(embedding.weight.ToVector<float>()[1], 0);
  EXPECT_NE(embedding.weight.ToVector<float>()[0], 0);
  Backward(embedding.Forward(Tensor::FromVector<int64_t>({0, 1}, {2})), Tensor::Full({2, 1}, 1));
  EXPECT_THAT(Grad(embedding.weight).ToVector<float>(), ElementsAre(1, 0, 0));
  EXPECT_THAT([] { Embedding(3, 1, {.padding_id = 3}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("padding_id is 3")));
}

TEST(EmbeddingTest, SparseGradients) {
  Embedding embedding(4, 1, {.padding_id = 1, .sparse = true});
  EXPECT_TRUE(ExpectsSparseGrad(embedding.weight));
  EXPECT_FALSE(ExpectsSparseGrad(Embedding(4, 1).weight));
  Backward(embedding.Forward(Tensor::FromVector<int64_t>({3, 1, 3}, {3})), Tensor::Full({3, 1}, 1));
  EXPECT_FALSE(Grad(embedding.weight).defined());
  EXPECT_THAT(CoalesceGrad(embedding.weight).ids.ToVector<int64_t>(), ElementsAre(3));
  EXPECT_THAT(SparseGrad(embedding.weight).rows.ToVector<float>(), ElementsAre(2));
}

TEST(EmbeddingTest, AnotherDTypeKeepsTheMark) {
  Embedding embedding(4, 1, {.sparse = true});
  embedding.Freeze();
  embedding.To(DType::kFloat64);
  EXPECT_FALSE(RequiresGrad(embedding.weight));
  EXPECT_TRUE(ExpectsSparseGrad(embedding.weight));
}

class Model : public Module {
 public:
  Model() { Register("tokens", tokens); }
  Embedding tokens{3, 2};
};

TEST(EmbeddingTest, AWrongInputIsToldWithTheLayersPath) {
  Model model;
  EXPECT_THAT([&] { model.tokens.Forward(Tensor::Zeros({2})); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("Embedding 'tokens': expected int64 ids, got float32[2]")));
}

}  // namespace
}  // namespace ops::nn
