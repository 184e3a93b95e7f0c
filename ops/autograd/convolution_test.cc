#include "ops/autograd/convolution.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

Tensor BiasOf(const std::vector<Tensor>& inputs) {
  return inputs.size() > 2 ? inputs[2] : Tensor();
}

// With every choice of inputs that require a gradient.
void ExpectGradientsMatch(const Function& function, const Shape& x_shape, const Shape& weight_shape,
                          int64_t outputs) {
  Generator generator(1);
  const Tensor x = RandomLeaf(x_shape, generator), w = RandomLeaf(weight_shape, generator);
  const Tensor b = RandomLeaf({outputs}, generator);
  SCOPED_TRACE(fmt::format("{} and {}", x_shape.ToString(), weight_shape.ToString()));
  EXPECT_TRUE(GradientsMatch(function, {x, w, b}));
  EXPECT_TRUE(GradientsMatch(function, {x, w, b}, {.accumulate = true}));
  EXPECT_TRUE(GradientsMatch(function, {x, w}));
  EXPECT_TRUE(GradientsMatch(function, {x.Detach(), w, b}));
  EXPECT_TRUE(GradientsMatch(function, {x, w.Detach(), b}));
  EXPECT_TRUE(GradientsMatch(function, {x, w, b.Detach()}));
  EXPECT_TRUE(GradientsMatch(function, {x.Detach(), w.Detach(), b}));
}

Function ConvolutionWith(const Conv2dOptions& options) {
  return [options](const std::vector<Tensor>& in) {
    return Conv2d(in[0], in[1], BiasOf(in), options);
  };
}

Function TransposedWith(const ConvTranspose2dOptions& options) {
  return [options](const std::vector<Tensor>& in) {
    return ConvTranspose2d(in[0], in[1], BiasOf(in), options);
  };
}

TEST(Conv2dTest, Values) {
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
  const Tensor weight = Tensor::FromVector<float>({1, 2, 0, -1, 1, 1, 1, 1}, {2, 1, 2, 2});
  const Tensor bias = Tensor::FromVector<float>({0.5, 10}, {2});
  const Tensor y = Conv2d(x, weight, bias);
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 2}));
  EXPECT_THAT(y.ToVector<float>(), ElementsAre(0.5, 2.5, 6.5, 8.5, 22, 26, 34, 38));
  const Tensor padded = Conv2d(x, weight, {}, {.stride = 3, .padding = 1});
  EXPECT_EQ(padded.shape(), (Shape{1, 2, 2, 2}));
  EXPECT_THAT(padded.ToVector<float>(), ElementsAre(-1, 0, 14, 9, 1, 3, 7, 9));
}

TEST(Conv2dTest, GradientsMatchDifferences) {
  ExpectGradientsMatch(ConvolutionWith({}), {2, 3, 5, 4}, {4, 3, 3, 2}, 4);
  ExpectGradientsMatch(ConvolutionWith({.padding = 1}), {2, 2, 4, 4}, {3, 2, 3, 3}, 3);
  ExpectGradientsMatch(ConvolutionWith({.stride = 2, .padding = 1}), {2, 2, 5, 6}, {3, 2, 3, 3}, 3);
  ExpectGradientsMatch(ConvolutionWith({.stride = {1, 3}, .padding = {0, 2}, .dilation = {2, 1}}),
                       {1, 2, 6, 5}, {3, 2, 2, 3}, 3);
  ExpectGradientsMatch(ConvolutionWith({.padding = 1, .groups = 2}), {2, 4, 3, 3}, {6, 2, 3, 3}, 6);
  ExpectGradientsMatch(ConvolutionWith({.stride = 2}), {2, 2, 4, 4}, {3, 2, 1, 1}, 3);
  ExpectGradientsMatch(ConvolutionWith({.padding = 1}), {0, 2, 4, 4}, {3, 2, 3, 3}, 3);
}

TEST(Conv1dTest, GradientsMatchDifferences) {
  const auto convolution = [](const std::vector<Tensor>& in) {
    return Conv1d(in[0], in[1], BiasOf(in), {.stride = 2, .padding = 3, .dilation = 2});
  };
  ExpectGradientsMatch(convolution, {2, 3, 7}, {4, 3, 3}, 4);
}

TEST(Conv1dTest, IsConv2dOfOneRow) {
  Generator generator(1);
  const Tensor x = Tensor::Randn({2, 4, 9}, generator), w = Tensor::Randn({6, 2, 3}, generator);
  const Tensor y = Conv1d(x, w, {}, {.stride = 2, .padding = 1, .groups = 2});
  EXPECT_EQ(y.shape(), (Shape{2, 6, 5}));
  EXPECT_EQ(y.ToVector<float>(), Conv2d(x.View({2, 4, 1, 9}), w.View({6, 2, 1, 3}), {},
                                        {.stride = {1, 2}, .padding = {0, 1}, .groups = 2})
                                     .ToVector<float>());
}

TEST(ConvTranspose2dTest, Values) {
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  const Tensor weight = Tensor::FromVector<float>({1, 10, 100, 1000}, {1, 1, 2, 2});
  const Tensor bias = Tensor::FromVector<float>({0.5}, {1});
  const Tensor y = ConvTranspose2d(x, weight, bias);
  EXPECT_EQ(y.shape(), (Shape{1, 1, 3, 3}));
  EXPECT_THAT(y.ToVector<float>(),
              ElementsAre(1.5, 12.5, 20.5, 103.5, 1234.5, 2040.5, 300.5, 3400.5, 4000.5));
  const Tensor spread =
      ConvTranspose2d(x, weight, {}, {.stride = 2, .padding = 1, .output_padding = 1});
  EXPECT_EQ(spread.shape(), (Shape{1, 1, 3, 3}));
  EXPECT_THAT(spread.ToVector<float>(), ElementsAre(1000, 200, 2000, 30, 4, 40, 3000, 400, 4000));
}

TEST(ConvTranspose2dTest, GradientsMatchDifferences) {
  ExpectGradientsMatch(TransposedWith({}), {2, 3, 4, 3}, {3, 4, 3, 2}, 4);
  ExpectGradientsMatch(TransposedWith({.stride = 2, .padding = 1, .output_padding = 1}),
                       {2, 2, 3, 3}, {2, 3, 3, 3}, 3);
  ExpectGradientsMatch(TransposedWith({.stride = {1, 2},
                                       .padding = 1,
                                       .output_padding = {1, 0},
                                       .dilation = {2, 1},
                                       .groups = 2}),
                       {1, 4, 3, 3}, {4, 3, 2, 3}, 6);
  ExpectGradientsMatch(TransposedWith({}), {0, 3, 4, 3}, {3, 4, 3, 2}, 4);
}

TEST(ConvTranspose1dTest, GradientsMatchDifferences) {
  const auto transposed = [](const std::vector<Tensor>& in) {
    return ConvTranspose1d(in[0], in[1], BiasOf(in),
                           {.stride = 3, .padding = 1, .output_padding = 2});
  };
  ExpectGradientsMatch(transposed, {2, 3, 4}, {3, 2, 3}, 2);
}

TEST(Conv2dTest, AnEmptyBatchHasZeroGradients) {
  const Tensor x = SetRequiresGrad(Tensor::Zeros({0, 2, 4, 4}));
  const Tensor weight = SetRequiresGrad(Tensor::Full({3, 2, 3, 3}, 1));
  const Tensor bias = SetRequiresGrad(Tensor::Full({3}, 1));
  const Tensor y = Conv2d(x, weight, bias, {.padding = 1});
  EXPECT_EQ(y.shape(), (Shape{0, 3, 4, 4}));
  Backward(y, Tensor::Zeros(y.shape()));
  EXPECT_THAT(Grad(weight).ToVector<float>(), Each(0));
  EXPECT_THAT(Grad(bias).ToVector<float>(), Each(0));
}

TEST(Conv2dTest, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::Zeros({2, 4, 5, 5}), weight = Tensor::Zeros({6, 4, 3, 3});
  const auto expect_refused = [&](const auto& call, const auto& message) {
    EXPECT_THAT(call, ThrowsMessage<std::invalid_argument>(message));
  };
  expect_refused(
      [&] {
        Conv2d(x, Tensor::Zeros({6, 3, 3, 3}), {});
      },
      AllOf(HasSubstr("Conv2d: input [2, 4, 5, 5]"), HasSubstr("[6, 3, 3, 3]"),
            HasSubstr("[out, in / groups, kh, kw]")));
  expect_refused([&] { Conv2d(Tensor::Zeros({4, 5, 5}), weight, {}); }, HasSubstr("[4, 5, 5]"));
  expect_refused([&] { Conv2d(x, Tensor::Zeros({6, 4, 3}), {}); }, HasSubstr("[6, 4, 3]"));
  expect_refused([&] { Conv2d(x, Tensor::Zeros({6, 4, 0, 3}), {}); }, HasSubstr("[6, 4, 0, 3]"));
  expect_refused([&] { Conv2d(x, weight, Tensor::Zeros({5})); },
                 AllOf(HasSubstr("bias [5]"), HasSubstr("expected [6]")));
  expect_refused(
      [&] {
        Conv2d(x, weight, {}, {.stride = {1, 0}});
      },
      HasSubstr("stride is 1x0, expected at least 1"));
  expect_refused([&] { Conv2d(x, weight, {}, {.padding = -1}); },
                 HasSubstr("padding is -1x-1, expected at least 0"));
  expect_refused([&] { Conv2d(x, weight, {}, {.dilation = 0}); },
                 HasSubstr("dilation is 0x0, expected at least 1"));
  expect_refused([&] { Conv2d(x, weight, {}, {.groups = 4}); },
                 HasSubstr("4 groups don't divide the 6 channels"));
  expect_refused([&] { Conv2d(x, weight, {}, {.groups = 0}); }, HasSubstr("0 groups"));
  expect_refused([&] { Conv2d(x, weight, {}, {.dilation = 3}); },
                 AllOf(HasSubstr("[2, 4, 5, 5] is too small"), HasSubstr("a window of 7")));
  expect_refused([&] { Conv2d(Tensor(), weight, {}); }, HasSubstr("Conv2d"));
  expect_refused([&] { Conv2d(x.To(DType::kFloat64), weight, {}); }, HasSubstr("float64"));
  expect_refused([&] { Conv2d(x.To(DType::kInt32), weight.To(DType::kInt32), {}); },
                 HasSubstr("floating"));
  expect_refused([&] { ConvTranspose2d(x, weight, {}); },
                 AllOf(HasSubstr("ConvTranspose2d"), HasSubstr("[in, out / groups, kh, kw]")));
  expect_refused(
      [&] {
        ConvTranspose2d(x, Tensor::Zeros({4, 6, 3, 3}), {}, {.stride = 2, .output_padding = 2});
      },
      HasSubstr("output_padding is 2x2, expected less than stride 2x2"));
  expect_refused(
      [&] {
        Conv1d(Tensor::Zeros({2, 4, 5}), Tensor::Zeros({6, 4, 9}), {});
      },
      AllOf(HasSubstr("Conv1d"), HasSubstr("too small")));
}

}  // namespace
}  // namespace ops
