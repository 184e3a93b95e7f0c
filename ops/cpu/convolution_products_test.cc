#include "ops/cpu/convolution_products.h"

#include <gtest/gtest.h>

#include "ops/cpu/convolution_testing.h"

namespace ops::cpu {
namespace {

TEST(ConvolutionProductsTest, TakeManyChannelsAtSmallExtents) {
  const auto axis = [](int64_t extent) { return Axis(extent, 3, 1, 1); };
  EXPECT_TRUE(ConvolvesByProducts({8, 512, 512, 1, axis(7), axis(7)}, DType::kFloat32));
  EXPECT_TRUE(ConvolvesByProducts({8, 256, 256, 1, axis(14), axis(14)}, DType::kFloat32));
  EXPECT_FALSE(ConvolvesByProducts({8, 256, 256, 1, axis(14), axis(14)}, DType::kBFloat16));
  EXPECT_FALSE(ConvolvesByProducts({8, 128, 128, 128, axis(14), axis(14)}, DType::kFloat32));
  EXPECT_FALSE(ConvolvesByProducts({8, 256, 256, 1, axis(28), axis(28)}, DType::kFloat32));
  EXPECT_FALSE(ConvolvesByProducts({64, 16, 32, 1, axis(14), axis(14)}, DType::kFloat32));
}

// More images than are multiplied at once (19 of these) give what each by itself does.
TEST(ConvolutionProductsTest, ManyImages) {
  const ConvolutionShape all = {23, 128, 128, 1, Axis(14, 3, 1, 1), Axis(14, 3, 1, 1)};
  ConvolutionShape single = all;
  single.batch = 1;
  const Tensor x = RandomTensor(InputOf(all), DType::kFloat32, 1);
  const Tensor weight = RandomTensor(WeightOf(all), DType::kFloat32, 2);
  const Tensor dy = RandomTensor(OutputOf(all), DType::kFloat32, 3);
  const Tensor y = Tensor::Empty(OutputOf(all)), expected_y = Tensor::Empty(OutputOf(all));
  const Tensor dx = Tensor::Empty(InputOf(all)), expected_dx = Tensor::Empty(InputOf(all));
  const Tensor dw = Tensor::Empty(WeightOf(all)), expected_dw = Tensor::Zeros(WeightOf(all));
  ForwardByProducts(all, x, weight, {}, y, false);
  BackwardDataByProducts(all, dy, weight, {}, dx, false);
  BackwardWeightByProducts(all, x, dy, dw, false);
  for (int64_t i = 0; i < all.batch; ++i) {
    const auto image = [i](const Tensor& tensor) { return tensor.Slice(i, i + 1); };
    ForwardByProducts(single, image(x), weight, {}, image(expected_y), false);
    BackwardDataByProducts(single, image(dy), weight, {}, image(expected_dx), false);
    BackwardWeightByProducts(single, image(x), image(dy), expected_dw, true);
  }
  const auto expect_near = [](const Tensor& actual, const Tensor& expected, double magnitude) {
    const std::vector<double> values = expected.ToVector<double>();
    ExpectNear(actual, values, std::vector<double>(values.size(), magnitude));
  };
  expect_near(y, expected_y, 128 * 9);
  expect_near(dx, expected_dx, 128 * 9);
  expect_near(dw, expected_dw, 23 * 196);
}

TEST(ConvolutionProductsTest, ThreadsDoNotChangeBits) {
  const ConvolutionShape shape = {4, 130, 256, 1, Axis(7, 3, 1, 1), Axis(7, 3, 1, 1)};
  const Tensor x = RandomTensor(InputOf(shape), DType::kFloat32, 1);
  const Tensor weight = RandomTensor(WeightOf(shape), DType::kFloat32, 2);
  const Tensor dy = RandomTensor(OutputOf(shape), DType::kFloat32, 3);
  ExpectSameBitsOnThreads([&] {
    const Tensor y = Tensor::Empty(OutputOf(shape));
    ForwardByProducts(shape, x, weight, {}, y, false);
    return y;
  });
  ExpectSameBitsOnThreads([&] {
    const Tensor dx = Tensor::Empty(InputOf(shape));
    BackwardDataByProducts(shape, dy, weight, {}, dx, false);
    return dx;
  });
  ExpectSameBitsOnThreads([&] {
    const Tensor dw = Tensor::Empty(WeightOf(shape));
    BackwardWeightByProducts(shape, x, dy, dw, false);
    return dw;
  });
}

}  // namespace
}  // namespace ops::cpu
