#include "ops/cpu/convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/convolution_testing.h"

namespace ops::cpu {
namespace {

// What is there before, the bias, and the products; and the sum of their magnitudes.
struct Expected {
  std::vector<double> values, magnitudes;

  Expected(const Tensor& before, const Tensor& bias, int64_t channels, int64_t pixels)
      : values(before.ToVector<double>()), magnitudes(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (bias.defined()) values[i] += bias.ToVector<double>()[i / pixels % channels];
      magnitudes[i] = std::abs(values[i]);
    }
  }
  void Add(int64_t i, double product) {
    values[i] += product;
    magnitudes[i] += std::abs(product);
  }
};

void ExpectForwardIsRight(const ConvolutionShape& shape, DType dtype, bool accumulate,
                          bool with_bias) {
  const Tensor x = RandomTensor(InputOf(shape), dtype, 1);
  const Tensor weight = RandomTensor(WeightOf(shape), dtype, 2);
  const Tensor bias = with_bias ? RandomTensor({shape.out_channels}, dtype, 3) : Tensor();
  const Tensor y = RandomTensor(OutputOf(shape), dtype, 4);
  const Tensor before = accumulate ? y.Clone() : Tensor::Zeros(y.shape(), y.options());
  Expected expected(before, bias, shape.out_channels, shape.out_pixels());
  const std::vector<double> xs = x.ToVector<double>(), weights = weight.ToVector<double>();
  ForEachProduct(shape,
                 [&](int64_t i, int64_t k, int64_t o) { expected.Add(o, xs[i] * weights[k]); });
  ConvolutionForward(shape, x, weight, bias, y, accumulate);
  ExpectNear(y, expected.values, expected.magnitudes);
}

void ExpectBackwardDataIsRight(const ConvolutionShape& shape, DType dtype, bool accumulate,
                               bool with_bias) {
  const Tensor dy = RandomTensor(OutputOf(shape), dtype, 1);
  const Tensor weight = RandomTensor(WeightOf(shape), dtype, 2);
  const Tensor bias = with_bias ? RandomTensor({shape.in_channels}, dtype, 3) : Tensor();
  const Tensor dx = RandomTensor(InputOf(shape), dtype, 4);
  const Tensor before = accumulate ? dx.Clone() : Tensor::Zeros(dx.shape(), dx.options());
  Expected expected(before, bias, shape.in_channels, shape.in_pixels());
  const std::vector<double> dys = dy.ToVector<double>(), weights = weight.ToVector<double>();
  ForEachProduct(shape,
                 [&](int64_t i, int64_t k, int64_t o) { expected.Add(i, dys[o] * weights[k]); });
  ConvolutionBackwardData(shape, dy, weight, bias, dx, accumulate);
  ExpectNear(dx, expected.values, expected.magnitudes);
}

TEST(ConvolutionTest, EveryShapeAndDType) {
  ForEachIsa([] {
    for (const ConvolutionShape& shape : ConvolutionShapes()) {
      SCOPED_TRACE(Describe(shape));
      for (const DType dtype : kFloatingDTypes) {
        ExpectForwardIsRight(shape, dtype, false, true);
        ExpectForwardIsRight(shape, dtype, true, false);
        ExpectBackwardDataIsRight(shape, dtype, false, false);
        ExpectBackwardDataIsRight(shape, dtype, true, true);
      }
    }
  });
}

// Tiles of outputs of every size, rows of every length.
TEST(ConvolutionTest, EveryNumberOfOutputsAndColumns) {
  ForEachIsa([] {
    for (int64_t n = 1; n <= 20; ++n) {
      const ConvolutionShape shape = {2, 3, n, 1, Axis(5, 3, 1, 1), Axis(3 * n, 3, 1, 1)};
      ExpectForwardIsRight(shape, DType::kFloat32, false, true);
      ExpectForwardIsRight(shape, DType::kFloat64, false, true);
      ExpectBackwardDataIsRight(shape, DType::kFloat32, true, false);
    }
  });
}

// Pixels that no window covers have no gradient.
TEST(ConvolutionTest, WhatNoWindowReadsHasNoGradient) {
  const ConvolutionShape shape = {1, 1, 1, 1, Axis(1, 1), Axis(6, 1, 4)};
  const Tensor dx = Tensor::Full({1, 1, 1, 6}, 7);
  ConvolutionBackwardData(shape, Tensor::Full({1, 1, 1, 2}, 3), Tensor::Full({1, 1, 1, 1}, 2), {},
                          dx);
  EXPECT_EQ(dx.ToVector<float>(), (std::vector<float>{6, 0, 0, 0, 6, 0}));
}

// One infinite or NaN pixel reaches the windows that cover it and no other.
TEST(ConvolutionTest, NotFiniteValuesStayInTheirWindows) {
  ForEachIsa([] {
    const ConvolutionShape shape = {1, 2, 3, 1, Axis(9, 3, 1, 1), Axis(9, 3, 1, 1)};
    for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const Tensor x = Tensor::Full(InputOf(shape), 1), y = Tensor::Empty(OutputOf(shape));
      const Tensor dy = Tensor::Full(OutputOf(shape), 1), dx = Tensor::Empty(InputOf(shape));
      const Tensor weight = Tensor::Full(WeightOf(shape), 2);
      x.data<float>()[81 + 4 * 9 + 8] = value;
      dy.data<float>()[81 + 4 * 9 + 8] = value;
      ConvolutionForward(shape, x, weight, {}, y);
      ConvolutionBackwardData(shape, dy, weight, {}, dx);
      for (int64_t i = 0; i < 3 * 81; ++i) {
        const int64_t row = i % 81 / 9, column = i % 9;
        const bool near = row >= 3 && row <= 5 && column >= 7;
        EXPECT_EQ(std::isfinite(y.data<float>()[i]), !near) << i;
        if (i < 2 * 81) {
          EXPECT_EQ(std::isfinite(dx.data<float>()[i]), !near) << i;
        }
      }
    }
  });
}

TEST(ConvolutionTest, ThreadsDoNotChangeBits) {
  for (const ConvolutionShape& shape : {
           ConvolutionShape{7, 16, 24, 1, Axis(14, 3, 1, 1), Axis(14, 3, 1, 1)},
           ConvolutionShape{1, 16, 24, 2, Axis(28, 3, 2, 1), Axis(28, 3, 2, 1)},
       }) {
    const Tensor x = RandomTensor(InputOf(shape), DType::kFloat32, 1);
    const Tensor weight = RandomTensor(WeightOf(shape), DType::kFloat32, 2);
    const Tensor dy = RandomTensor(OutputOf(shape), DType::kFloat32, 3);
    ExpectSameBitsOnThreads([&] {
      const Tensor y = Tensor::Empty(OutputOf(shape));
      ConvolutionForward(shape, x, weight, {}, y);
      return y;
    });
    ExpectSameBitsOnThreads([&] {
      const Tensor dx = Tensor::Empty(InputOf(shape));
      ConvolutionBackwardData(shape, dy, weight, {}, dx);
      return dx;
    });
  }
}

}  // namespace
}  // namespace ops::cpu
