#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/nn/losses.h"

namespace ops::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Mlp : public Module {
 public:
  Mlp() {
    Register("fc1", fc1_);
    Register("fc2", fc2_);
  }
  Tensor Forward(const Tensor& x) override { return fc2_.Forward(ops::Relu(fc1_.Forward(x))); }

  Linear fc1_{784, 1024}, fc2_{1024, 10};
};

TEST(LinearTest, ComputesXWTransposedPlusB) {
  Linear linear(2, 3);
  linear.LoadStateDict({{"weight", Tensor::FromVector<float>({1, 0, 0, 1, 2, -1}, {3, 2})},
                        {"bias", Tensor::FromVector<float>({10, 20, 30}, {3})}});
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, {2, 1, 2});
  EXPECT_EQ(linear.Forward(x).shape(), (Shape{2, 1, 3}));
  EXPECT_THAT(linear.Forward(x).ToVector<float>(), ElementsAre(11, 22, 30, 13, 24, 32));
}

TEST(LinearTest, DrawsWeightThenBiasUniformly) {
  Generator generator(4), same(4);
  const Linear linear(16, 7, {.generator = &generator});
  const Tensor weight = Tensor::Empty({7, 16}), bias = Tensor::Empty({7});
  same.FillUniform(weight, -0.25, 0.25);
  same.FillUniform(bias, -0.25, 0.25);
  EXPECT_EQ(linear.weight.ToVector<float>(), weight.ToVector<float>());
  EXPECT_EQ(linear.bias.ToVector<float>(), bias.ToVector<float>());
}

TEST(LinearTest, DrawsFromTheThreadsGeneratorByDefault) {
  Generator generator(4);
  Generator::ForThisThread() = Generator(4);
  const Linear linear(16, 7), expected(16, 7, {.generator = &generator});
  EXPECT_EQ(linear.weight.ToVector<float>(), expected.weight.ToVector<float>());
}

TEST(LinearTest, Options) {
  Linear linear(3, 2, {.bias = false, .dtype = DType::kFloat64});
  EXPECT_EQ(linear.Parameters().size(), 1u);
  EXPECT_EQ(linear.weight.Describe(), "float64[2, 3]");
  EXPECT_FALSE(linear.bias.defined());
  EXPECT_EQ(linear.Forward(Tensor::Zeros({4, 3}, {DType::kFloat64})).Describe(), "float64[4, 2]");
  EXPECT_THAT([] { Linear(0, 2); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("in_features is 0")));
  EXPECT_THAT([] { Linear(3, -1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("out_features is -1")));
}

TEST(LinearTest, AWrongInputIsToldWithTheLayersPathAndBothShapes) {
  Mlp model;
  EXPECT_THAT(
      [&] {
        model.fc2_.Forward(Tensor::Zeros({64, 784}));
      },
      ThrowsMessage<std::invalid_argument>(
          "Linear 'fc2': input [64, 784] doesn't fit weight [10, 1024]: expected "
          "[..., 1024]"));
  EXPECT_THAT(
      [&] {
        model.fc2_.Forward(Tensor::Zeros({64, 1024}, {DType::kFloat64}));
      },
      ThrowsMessage<std::invalid_argument>(
          "Linear 'fc2': input float64[64, 1024] doesn't fit weight float32[10, 1024]: "
          "expected [..., 1024]"));
  EXPECT_THAT([&] { model.fc1_.Forward(Tensor()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'fc1': input undefined tensor")));
  EXPECT_THAT([&] { model.fc1_.Forward(Tensor::Scalar(1)); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("input []")));
}

TEST(SequentialTest, AppliesLayersInOrderAndNumbersThem) {
  Sequential net;
  net.Add<Linear>(2, 3);
  net.Add<Relu>();
  Linear& last = net.Add<Linear>(3, 1);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : net.Parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
  EXPECT_EQ(last.Path(), "2");

  net.LoadStateDict({{"0.weight", Tensor::FromVector<float>({1, 0, 0, 1, -1, -1}, {3, 2})},
                     {"0.bias", Tensor::Zeros({3})},
                     {"2.weight", Tensor::FromVector<float>({1, 10, 100}, {1, 3})},
                     {"2.bias", Tensor::Zeros({1})}});
  EXPECT_EQ(net.Forward(Tensor::FromVector<float>({2, 3}, {1, 2})).Item(), 32);
  EXPECT_EQ(net.Forward(Tensor::FromVector<float>({-2, -3}, {1, 2})).Item(), 500);
}

TEST(SequentialTest, WithoutLayersIsTheIdentity) {
  Sequential net;
  const Tensor x = Tensor::Zeros({2});
  EXPECT_TRUE(net.Forward(x).IsSameAs(x));
}

TEST(SequentialTest, BackwardReachesEveryParameter) {
  Sequential net;
  net.Add<Linear>(4, 8);
  net.Add<Relu>();
  net.Add<Linear>(8, 3);
  Generator generator(1);
  Backward(nn::CrossEntropyLoss(net.Forward(Tensor::Randn({5, 4}, generator)),
                                Tensor::Zeros({5}, {.dtype = DType::kInt64})));
  for (const auto& [name, parameter] : net.Parameters()) {
    EXPECT_TRUE(Grad(parameter).defined()) << name;
  }
}

}  // namespace
}  // namespace ops::nn
