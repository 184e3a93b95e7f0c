#include "ops/nn/pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/nn/containers.h"
#include "ops/tensor/random.h"

namespace ops::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void ExpectEqual(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.ToVector<float>(), b.ToVector<float>());
}

TEST(PoolingLayersTest, ComputeTheFunctionsWithTheirOptions) {
  Generator generator(1);
  const Tensor x = Tensor::Randn({2, 3, 7, 8}, generator),
               row = Tensor::Randn({2, 3, 9}, generator);
  const Pool2dOptions two = {.stride = 2, .padding = 1, .ceil_mode = true};
  const Pool1dOptions one = {.stride = 2, .padding = 1, .ceil_mode = true};
  ExpectEqual(MaxPool2d(3, two).Forward(x), ops::MaxPool2d(x, 3, two));
  ExpectEqual(MaxPool1d(3, one).Forward(row), ops::MaxPool1d(row, 3, one));
  ExpectEqual(AvgPool2d(3, two, false).Forward(x), ops::AvgPool2d(x, 3, two, false));
  ExpectEqual(AvgPool1d(3, one).Forward(row), ops::AvgPool1d(row, 3, one));
  ExpectEqual(AdaptiveAvgPool2d({2, 3}).Forward(x), ops::AdaptiveAvgPool2d(x, {2, 3}));
  ExpectEqual(AdaptiveAvgPool1d(4).Forward(row), ops::AdaptiveAvgPool1d(row, 4));
  ExpectEqual(AdaptiveMaxPool2d(2).Forward(x), ops::AdaptiveMaxPool2d(x, 2));
  ExpectEqual(AdaptiveMaxPool1d(4).Forward(row), ops::AdaptiveMaxPool1d(row, 4));
}

TEST(PoolingLayersTest, AWrongInputIsToldWithTheLayersPath) {
  Sequential net;
  net.Add<MaxPool2d>(2);
  net.Add<AvgPool2d>(4);
  EXPECT_THAT(
      [&] {
        net.Forward(Tensor::Zeros({3, 5, 5}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("MaxPool2d '0': expected [batch")));
  EXPECT_THAT(
      [&] {
        net.Forward(Tensor::Zeros({2, 3, 6, 6}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("AvgPool2d '1': a window of 4")));
}

}  // namespace
}  // namespace ops::nn
