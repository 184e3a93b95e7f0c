#include "ops/optim/master_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"

namespace ops::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Leaf(double value, DType dtype) {
  return SetRequiresGrad(Tensor::Full({2}, value, {.dtype = dtype}));
}

class MasterWeightsTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, MasterWeightsTest,
                         testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Steps of 1e-4 from 1, where 16-bit numbers lie 2^-8 and 2^-11 apart.
TEST_P(MasterWeightsTest, UpdatesBelowTheResolutionAddUp) {
  const auto train = [](const Tensor& parameter, const std::vector<NamedTensor>& stepped,
                        MasterWeights* masters) {
    Sgd optimizer(stepped, {.learning_rate = 1e-4});
    for (int step = 0; step < 1000; ++step) {
      ClearGrad(parameter);
      Backward(Sum(parameter));
      if (masters != nullptr) masters->WidenGradients();
      optimizer.Step();
      if (masters != nullptr) masters->RoundIntoModel();
    }
  };
  const Tensor alone = Leaf(1, GetParam());
  train(alone, {{"w", alone}}, nullptr);
  EXPECT_THAT(alone.ToVector<float>(), ElementsAre(1, 1));

  const Tensor parameter = Leaf(1, GetParam());
  MasterWeights masters({{"w", parameter}});
  train(parameter, masters.parameters(), &masters);
  const Tensor master = masters.parameters()[0].tensor;
  EXPECT_NEAR(master.ToVector<float>()[0], 0.9, 1e-4);
  EXPECT_EQ(parameter.ToVector<float>(), master.To(GetParam()).ToVector<float>());
}

TEST_P(MasterWeightsTest, AModelLearnsAsInFloat32) {
  const auto loss_after = [](DType dtype) {
    Generator generator(1);
    nn::Linear model(4, 3, {.generator = &generator});
    const Tensor x = Tensor::Randn({64, 4}, generator);
    const Tensor target = Slice(x, 1, 0, 3) * 0.5;
    model.To(dtype);
    MasterWeights masters(model.Parameters());
    AdamW optimizer(masters.parameters(), {.learning_rate = 2e-3});
    double loss_value = 0;
    for (int step = 0; step < 600; ++step) {
      model.ZeroGrad();
      const Tensor loss = MseLoss(Cast(model.Forward(x.To(dtype)), DType::kFloat32), target);
      Backward(loss);
      masters.WidenGradients();
      optimizer.Step();
      masters.RoundIntoModel();
      loss_value = loss.Item();
    }
    return loss_value;
  };
  const double in_float32 = loss_after(DType::kFloat32);
  EXPECT_LT(in_float32, 1e-3);
  EXPECT_NEAR(loss_after(GetParam()), in_float32, 1e-4);
}

TEST_P(MasterWeightsTest, MastersHaveTheParametersNamesValuesAndGradients) {
  const Tensor narrow = Leaf(0.5, GetParam()), wide = Leaf(2, DType::kFloat32);
  const Tensor unused = Leaf(3, GetParam());
  MasterWeights masters({{"narrow", narrow}, {"wide", wide}, {"unused", unused}});
  const std::vector<NamedTensor>& parameters = masters.parameters();
  EXPECT_EQ(parameters[0].name, "narrow");
  EXPECT_EQ(parameters[0].tensor.Describe(), "float32[2]");
  EXPECT_THAT(parameters[0].tensor.ToVector<float>(), ElementsAre(0.5, 0.5));
  EXPECT_TRUE(parameters[1].tensor.IsSameAs(wide));

  Backward(Sum(Cast(narrow, DType::kFloat32) * wide));
  masters.WidenGradients();
  EXPECT_EQ(Grad(parameters[0].tensor).Describe(), "float32[2]");
  EXPECT_THAT(Grad(parameters[0].tensor).ToVector<float>(), ElementsAre(2, 2));
  EXPECT_THAT(Grad(parameters[1].tensor).ToVector<float>(), ElementsAre(0.5, 0.5));
  EXPECT_FALSE(Grad(parameters[2].tensor).defined());
  ClearGrad(narrow);
  masters.WidenGradients();
  EXPECT_FALSE(Grad(parameters[0].tensor).defined());
}

TEST_P(MasterWeightsTest, AStepOfSomeLeavesTheOthersAlone) {
  const Tensor one = Leaf(1, GetParam()), other = Leaf(2, GetParam()),
               wide = Leaf(3, DType::kFloat32);
  MasterWeights masters({{"one", one}, {"other", other}, {"wide", wide}});
  Backward(Cast(Sum(one * other), DType::kFloat32) + Sum(wide));
  const std::vector<NamedTensor> some = {{"wide", wide}, {"one", one}};
  masters.WidenGradients(some);
  EXPECT_THAT(Grad(masters.parameters()[0].tensor).ToVector<float>(), ElementsAre(2, 2));
  EXPECT_FALSE(Grad(masters.parameters()[1].tensor).defined());
  for (const NamedTensor& master : masters.parameters()) master.tensor.Fill(7);
  masters.RoundIntoModel(some);
  EXPECT_THAT(one.ToVector<float>(), ElementsAre(7, 7));
  EXPECT_THAT(other.ToVector<float>(), ElementsAre(2, 2));
}

TEST_P(MasterWeightsTest, AStateOfTheFloat32ModelIsTakenWithoutRounding) {
  nn::BatchNorm1d norm(2);
  norm.weight.Fill(1.0001);
  const std::vector<NamedTensor> before = norm.StateDict();
  norm.To(GetParam());
  MasterWeights masters(norm.Parameters());
  EXPECT_EQ(masters.parameters()[0].tensor.ToVector<float>()[0], 1);
  masters.LoadStateDict(before);
  EXPECT_EQ(masters.parameters()[0].tensor.ToVector<float>()[0], 1.0001F);
  EXPECT_EQ(norm.weight.ToVector<float>()[0], 1);
  norm.weight.Fill(5);
  masters.LoadStateDict(masters.parameters());
  EXPECT_EQ(norm.weight.ToVector<float>()[0], 1);
}

TEST(MasterWeightsErrorsTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  MasterWeights masters({{"a", Leaf(1, DType::kBFloat16)}, {"b", Leaf(1, DType::kBFloat16)}});
  const auto refused = [](const char* message) {
    return ThrowsMessage<std::invalid_argument>(HasSubstr(message));
  };
  EXPECT_THAT(
      [&] {
        masters.LoadStateDict({{"a", Leaf(2, DType::kFloat32)}});
      },
      refused("the state has no 'b'"));
  EXPECT_THAT(
      [&] {
        masters.LoadStateDict({{"a", Leaf(2, DType::kFloat32)}, {"b", Tensor::Zeros({3})}});
      },
      refused("'b' is float32[3] in the state, expected float32[2]"));
  EXPECT_THAT(masters.parameters()[0].tensor.ToVector<float>(), ElementsAre(1, 1));
  EXPECT_THAT(
      [] {
        MasterWeights({{"n", Tensor::Zeros({2}, {.dtype = DType::kInt64})}});
      },
      refused("no master weight of 'n': it is int64[2]"));
}

}  // namespace
}  // namespace ops::optim
