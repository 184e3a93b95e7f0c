#include "ops/nn/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"

namespace ops::nn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> Described(const Module& module) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : module.Parameters()) {
    lines.push_back(name + " " + tensor.Describe());
  }
  return lines;
}

TEST(SelfAttentionTest, ParametersAreTwoProjections) {
  EXPECT_THAT(Described(SelfAttention(4, 2)),
              ElementsAre("qkv.weight float32[12, 4]", "qkv.bias float32[12]",
                          "proj.weight float32[4, 4]", "proj.bias float32[4]"));
  EXPECT_THAT(Described(SelfAttention(4, 2, {.bias = false, .dtype = DType::kFloat64})),
              ElementsAre("qkv.weight float64[12, 4]", "proj.weight float64[4, 4]"));
}

TEST(SelfAttentionTest, ProjectsWhatAttentionGives) {
  Generator generator(1);
  SelfAttention layer(8, 2, {.causal = false, .generator = &generator});
  const Tensor x = Tensor::Randn({3, 5, 8}, generator);
  const auto state = layer.StateDict();
  const Tensor qkv = ops::Linear(x, state[0].tensor, state[1].tensor);
  const Tensor attended = Attention(qkv, {.num_heads = 2, .causal = false});
  const Tensor expected = ops::Linear(attended, state[2].tensor, state[3].tensor);
  EXPECT_EQ(layer.Forward(x).ToVector<float>(), expected.ToVector<float>());
}

TEST(SelfAttentionTest, BackwardReachesInputAndParameters) {
  Generator generator(1);
  SelfAttention layer(8, 4, {.generator = &generator});
  const Tensor x = SetRequiresGrad(Tensor::Randn({2, 3, 8}, generator));
  Backward(Sum(layer.Forward(x)));
  EXPECT_TRUE(Grad(x).defined());
  for (const auto& [name, parameter] : layer.Parameters()) {
    EXPECT_TRUE(Grad(parameter).defined()) << name;
  }
}

TEST(SelfAttentionTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT([] { SelfAttention(8, 3); }, ThrowsMessage<std::invalid_argument>(AllOf(
                                               HasSubstr("num_heads is 3"), HasSubstr("width 8"))));
  EXPECT_THROW(SelfAttention(8, 0), std::invalid_argument);
  SelfAttention layer(8, 2);
  EXPECT_THAT(
      [&] {
        layer.Forward(Tensor::Zeros({5, 8}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("[batch, time, 8], got [5, 8]")));
  EXPECT_THAT(
      [&] {
        layer.Forward(Tensor::Zeros({1, 5, 7}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("Linear 'qkv'")));
}

}  // namespace
}  // namespace ops::nn
