#include "ops/autograd/pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
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

using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

Tensor Counting(const Shape& shape) {
  std::vector<float> values(shape.num_elements());
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::FromVector(values, shape);
}

void ExpectGradientsMatch(const Shape& shape, const Function& function) {
  Generator generator(1);
  const Tensor x = RandomLeaf(shape, generator);
  EXPECT_TRUE(GradientsMatch(function, {x}));
  EXPECT_TRUE(GradientsMatch(function, {x}, {.accumulate = true}));
}

TEST(MaxPool2dTest, ValuesAndGradient) {
  const Tensor x = SetRequiresGrad(
      Tensor::FromVector<float>({1, 2, 5, 3, 4, 4, 9, 0, 7, 1, 1, 1}, {1, 1, 3, 4}));
  const Tensor y = MaxPool2d(x, 2);
  EXPECT_EQ(y.shape(), (Shape{1, 1, 1, 2}));
  EXPECT_THAT(y.ToVector<float>(), ElementsAre(4, 9));
  Backward(y, Tensor::FromVector<float>({10, 20}, {1, 1, 1, 2}));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(0, 0, 0, 0, 10, 0, 20, 0, 0, 0, 0, 0));
}

// Compared with PyTorch.
TEST(MaxPool2dTest, WindowsInCeilModeAreThosePyTorchHas) {
  const Tensor x = Counting({1, 1, 5, 5});
  EXPECT_THAT(MaxPool2d(x, 2, {.ceil_mode = true}).ToVector<float>(),
              ElementsAre(7, 9, 10, 17, 19, 20, 22, 24, 25));
  EXPECT_THAT(MaxPool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true}).ToVector<float>(),
              ElementsAre(7, 9, 10, 17, 19, 20, 22, 24, 25));
  // The third window would begin in the padding, and is left out.
  EXPECT_EQ(MaxPool1d(Counting({1, 1, 4}), 2, {.padding = 1, .ceil_mode = true}).shape(),
            (Shape{1, 1, 3}));
  EXPECT_EQ(MaxPool1d(Counting({1, 1, 3}), 2, {.padding = 1, .ceil_mode = true}).shape(),
            (Shape{1, 1, 2}));
}

TEST(AvgPool2dTest, CountsPaddingOrNot) {
  const Tensor x = Counting({1, 1, 3, 3});
  EXPECT_THAT(AvgPool2d(x, 2, {.padding = 1}).ToVector<float>(), ElementsAre(0.25, 1.25, 2.75, 7));
  EXPECT_THAT(AvgPool2d(x, 2, {.padding = 1}, false).ToVector<float>(),
              ElementsAre(1, 2.5, 5.5, 7));
  // A window that reaches beyond the padding counts what lies within it.
  EXPECT_THAT(AvgPool1d(Counting({1, 1, 4}), 3, {.stride = 2, .padding = 1, .ceil_mode = true})
                  .ToVector<float>(),
              ElementsAre(1, 3, 2));
}

TEST(AdaptivePoolTest, Values) {
  const Tensor x = Counting({1, 1, 7});
  EXPECT_THAT(AdaptiveAvgPool1d(x, 3).ToVector<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(AdaptiveMaxPool1d(x, 3).ToVector<float>(), ElementsAre(3, 5, 7));
  EXPECT_THAT(AdaptiveAvgPool2d(Counting({1, 2, 2, 2}), 1).ToVector<float>(),
              ElementsAre(2.5, 6.5));
  EXPECT_THAT(AdaptiveMaxPool2d(Counting({1, 1, 2, 3}), {1, 2}).ToVector<float>(),
              ElementsAre(5, 6));
  EXPECT_EQ(AdaptiveAvgPool2d(Counting({1, 2, 2, 2}), {0, 1}).shape(), (Shape{1, 2, 0, 1}));
}

TEST(PoolingTest, GradientsMatchDifferences) {
  const auto first = [](auto f) { return [f](const std::vector<Tensor>& in) { return f(in[0]); }; };
  for (const bool ceil_mode : {false, true}) {
    const Pool2dOptions options = {.stride = Extent2(2, 3), .padding = 1, .ceil_mode = ceil_mode};
    ExpectGradientsMatch({2, 2, 6, 7},
                         first([=](const Tensor& x) { return MaxPool2d(x, 3, options); }));
    ExpectGradientsMatch({2, 2, 6, 7},
                         first([=](const Tensor& x) { return AvgPool2d(x, 3, options); }));
    ExpectGradientsMatch({2, 2, 6, 7}, first([=](const Tensor& x) {
                           return AvgPool2d(x, {2, 3}, options, false);
                         }));
  }
  ExpectGradientsMatch({2, 3, 5, 6}, first([](const Tensor& x) { return MaxPool2d(x, 2); }));
  ExpectGradientsMatch({2, 3, 6, 6}, first([](const Tensor& x) { return MaxPool2d(x * 2, 2); }));
  ExpectGradientsMatch({2, 3, 9}, first([](const Tensor& x) { return MaxPool1d(x, 2); }));
  ExpectGradientsMatch({2, 3, 9}, first([](const Tensor& x) { return AvgPool1d(x, 4); }));
  ExpectGradientsMatch({2, 3, 5, 6},
                       first([](const Tensor& x) { return AdaptiveAvgPool2d(x, 1); }));
  ExpectGradientsMatch({2, 3, 5, 6}, first([](const Tensor& x) {
                         return AdaptiveMaxPool2d(x, {2, 4});
                       }));
  ExpectGradientsMatch({2, 3, 9}, first([](const Tensor& x) { return AdaptiveAvgPool1d(x, 4); }));
  ExpectGradientsMatch({2, 3, 9}, first([](const Tensor& x) { return AdaptiveMaxPool1d(x, 20); }));
  ExpectGradientsMatch({0, 3, 4, 4}, first([](const Tensor& x) { return MaxPool2d(x, 2); }));
  ExpectGradientsMatch({0, 3, 4, 4}, first([](const Tensor& x) { return AvgPool2d(x, 2); }));
}

TEST(PoolingTest, RefusesWhatMakesNoWindows) {
  const Tensor x = Tensor::Zeros({2, 3, 5, 5});
  const auto expect_refused = [](const auto& call, const auto& message) {
    EXPECT_THAT(call, ThrowsMessage<std::invalid_argument>(message));
  };
  expect_refused([&] { MaxPool2d(Tensor(), 2); }, HasSubstr("MaxPool2d"));
  expect_refused(
      [&] {
        MaxPool2d(Tensor::Zeros({3, 5, 5}), 2);
      },
      AllOf(HasSubstr("[batch, channels, h, w]"), HasSubstr("[3, 5, 5]")));
  expect_refused([&] { AvgPool1d(x, 2); }, HasSubstr("[batch, channels, length]"));
  expect_refused([&] { MaxPool2d(x.To(DType::kInt32), 2); }, HasSubstr("int32"));
  expect_refused([&] { MaxPool2d(Tensor::Zeros({2, 3, 0, 5}), 1); }, HasSubstr("not empty"));
  expect_refused([&] { MaxPool2d(x, 0); }, HasSubstr("extent is 0"));
  expect_refused([&] { MaxPool2d(x, 2, {.stride = 0}); }, HasSubstr("stride is 0"));
  expect_refused([&] { AvgPool2d(x, 3, {.padding = 2}); },
                 HasSubstr("padding is 2, expected 0 to half of the kernel's extent 3"));
  expect_refused([&] { AvgPool2d(x, 2, {.padding = -1}); }, HasSubstr("padding is -1"));
  expect_refused([&] { MaxPool2d(x, 6); }, HasSubstr("a window of 6 doesn't fit an extent of 5"));
  expect_refused([&] { AdaptiveAvgPool2d(x, -1); }, HasSubstr("extent is -1"));
}

}  // namespace
}  // namespace ops
