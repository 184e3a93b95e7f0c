#include "ops/nn/convolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/containers.h"

namespace ops::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Conv2dTest, DrawsWeightThenBiasByPyTorchsFanIn) {
  Generator generator(4), same(4);
  const Conv2d conv(4, 6, {3, 2}, {.groups = 2, .generator = &generator});
  const Tensor weight = Tensor::Empty({6, 2, 3, 2}), bias = Tensor::Empty({6});
  const double bound = 1 / std::sqrt(12.0);
  same.FillUniform(weight, -bound, bound);
  same.FillUniform(bias, -bound, bound);
  EXPECT_EQ(conv.weight.shape(), weight.shape());
  EXPECT_EQ(conv.weight.ToVector<float>(), weight.ToVector<float>());
  EXPECT_EQ(conv.bias.ToVector<float>(), bias.ToVector<float>());
}

TEST(ConvTranspose2dTest, TheFanInIsThatOfTheSecondDimension) {
  Generator generator(4), same(4);
  const ConvTranspose2d conv(4, 6, 3, {.groups = 2, .generator = &generator});
  const Tensor weight = Tensor::Empty({4, 3, 3, 3});
  const double bound = 1 / std::sqrt(27.0);
  same.FillUniform(weight, -bound, bound);
  EXPECT_EQ(conv.weight.shape(), weight.shape());
  EXPECT_EQ(conv.weight.ToVector<float>(), weight.ToVector<float>());
  EXPECT_EQ(conv.bias.shape(), (Shape{6}));
}

TEST(ConvolutionLayersTest, ComputeTheFunctionsWithTheirOptions) {
  Generator generator(1);
  const Tensor x = Tensor::Randn({2, 4, 9, 8}, generator),
               row = Tensor::Randn({2, 4, 9}, generator);
  Conv2d conv2d(4, 6, 3, {.stride = {2, 1}, .padding = 1, .dilation = 2, .groups = 2});
  EXPECT_EQ(conv2d.Forward(x).ToVector<float>(),
            ops::Conv2d(x, conv2d.weight, conv2d.bias,
                        {.stride = {2, 1}, .padding = 1, .dilation = 2, .groups = 2})
                .ToVector<float>());
  Conv1d conv1d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
  EXPECT_EQ(conv1d.Forward(row).ToVector<float>(),
            ops::Conv1d(row, conv1d.weight, conv1d.bias,
                        {.stride = 2, .padding = 1, .dilation = 2, .groups = 2})
                .ToVector<float>());
  ConvTranspose2d transpose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = {1, 0}});
  EXPECT_EQ(transpose2d.Forward(x).ToVector<float>(),
            ops::ConvTranspose2d(x, transpose2d.weight, transpose2d.bias,
                                 {.stride = 2, .padding = 1, .output_padding = {1, 0}})
                .ToVector<float>());
  ConvTranspose1d transpose1d(4, 6, 3, {.stride = 2, .output_padding = 1, .groups = 2});
  EXPECT_EQ(transpose1d.Forward(row).ToVector<float>(),
            ops::ConvTranspose1d(row, transpose1d.weight, transpose1d.bias,
                                 {.stride = 2, .output_padding = 1, .groups = 2})
                .ToVector<float>());
}

TEST(ConvolutionLayersTest, WithoutBias) {
  Conv2d conv(3, 2, 1, {.bias = false, .dtype = DType::kFloat64});
  EXPECT_EQ(conv.Parameters().size(), 1u);
  EXPECT_FALSE(conv.bias.defined());
  EXPECT_EQ(conv.Forward(Tensor::Zeros({4, 3, 5, 5}, {DType::kFloat64})).Describe(),
            "float64[4, 2, 5, 5]");
}

TEST(ConvolutionLayersTest, BackwardReachesEveryParameter) {
  Sequential net;
  net.Add<Conv2d>(1, 4, 3, Conv2dOptions{.padding = 1});
  net.Add<ConvTranspose2d>(4, 2, 2);
  Generator generator(1);
  const Tensor y = net.Forward(Tensor::Randn({2, 1, 5, 5}, generator));
  Backward(y, Tensor::Full(y.shape(), 1));
  for (const auto& [name, parameter] : net.Parameters()) {
    EXPECT_TRUE(Grad(parameter).defined()) << name;
  }
}

TEST(ConvolutionLayersTest, RefuseWhatMakesNoLayer) {
  const auto expect_refused = [](const auto& make, const char* message) {
    EXPECT_THAT(make, ThrowsMessage<std::invalid_argument>(HasSubstr(message)));
  };
  expect_refused([] { Conv2d(0, 2, 3); }, "Conv2d: in_channels is 0");
  expect_refused([] { Conv1d(3, -2, 3); }, "Conv1d: out_channels is -2");
  expect_refused([] { Conv2d(3, 2, {3, 0}); }, "the kernel's width is 0");
  expect_refused([] { Conv2d(4, 6, 3, {.groups = 0}); }, "groups is 0");
  expect_refused([] { ConvTranspose2d(4, 6, 3, {.groups = 4}); }, "4 groups");
}

TEST(ConvolutionLayersTest, AWrongInputIsToldWithTheLayersPath) {
  Sequential net;
  net.Add<Conv2d>(3, 4, 3);
  net.Add<Conv1d>(3, 4, 3);
  EXPECT_THAT(
      [&] {
        net.Forward(Tensor::Zeros({2, 1, 5, 5}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("Conv2d '0': input [2, 1, 5, 5]"), HasSubstr("[4, 3, 3, 3]"))));
  EXPECT_THAT(
      [&] {
        net.Forward(Tensor::Zeros({2, 3, 5, 5}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("Conv1d '1': input [2, 4, 3, 3]")));
  EXPECT_THAT(
      [&] {
        net.Forward(Tensor::Zeros({2, 3, 2, 5}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("Conv2d '0': input [2, 3, 2, 5] is")));
  EXPECT_THAT([&] { net.Forward(Tensor()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("Conv2d '0'")));
}

}  // namespace
}  // namespace ops::nn
