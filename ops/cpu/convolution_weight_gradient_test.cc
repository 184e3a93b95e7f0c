#include "ops/cpu/convolution_weight_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/convolution_testing.h"

namespace ops::cpu {
namespace {

void ExpectIsRight(const ConvolutionShape& shape, DType dtype, bool accumulate) {
  const Tensor x = RandomTensor(InputOf(shape), dtype, 1);
  const Tensor dy = RandomTensor(OutputOf(shape), dtype, 2);
  const Tensor dw = RandomTensor(WeightOf(shape), dtype, 3);
  std::vector<double> expected = dw.ToVector<double>(), magnitudes(expected.size());
  if (!accumulate) expected.assign(expected.size(), 0);
  for (size_t i = 0; i < expected.size(); ++i) magnitudes[i] = std::abs(expected[i]);
  const std::vector<double> xs = x.ToVector<double>(), dys = dy.ToVector<double>();
  ForEachProduct(shape, [&](int64_t i, int64_t k, int64_t o) {
    expected[k] += xs[i] * dys[o];
    magnitudes[k] += std::abs(xs[i] * dys[o]);
  });
  ConvolutionBackwardWeight(shape, x, dy, dw, accumulate);
  ExpectNear(dw, expected, magnitudes);
}

TEST(ConvolutionWeightGradientTest, EveryShapeAndDType) {
  ForEachIsa([] {
    for (const ConvolutionShape& shape : ConvolutionShapes()) {
      SCOPED_TRACE(Describe(shape));
      for (const DType dtype : kFloatingDTypes) {
        for (const bool accumulate : {false, true}) ExpectIsRight(shape, dtype, accumulate);
      }
    }
  });
}

// Tiles of taps and vectors of outputs of every size.
TEST(ConvolutionWeightGradientTest, EveryNumberOfOutputsAndTaps) {
  ForEachIsa([] {
    for (int64_t n = 1; n <= 40; ++n) {
      const ConvolutionShape shape = {2, 2, n, 1, Axis(4, 1), Axis(n + 4, (n + 1) / 2)};
      ExpectIsRight(shape, DType::kFloat32, false);
      ExpectIsRight(shape, DType::kFloat64, true);
    }
  });
}

// Many parts of the batch, many slices of the channels.
TEST(ConvolutionWeightGradientTest, LargeWork) {
  ForEachIsa([] {
    ExpectIsRight({50, 8, 16, 1, Axis(14, 3, 1, 1), Axis(14, 3, 1, 1)}, DType::kFloat32, true);
    ExpectIsRight({2, 100, 48, 2, Axis(14, 3, 1, 1), Axis(14, 3, 1, 1)}, DType::kFloat32, false);
  });
}

// An infinite pixel at the right edge reaches the taps that cover it and no other.
TEST(ConvolutionWeightGradientTest, NotFiniteValuesStayWithTheirTaps) {
  ForEachIsa([] {
    const ConvolutionShape shape = {1, 1, 2, 1, Axis(3, 1), Axis(5, 3)};
    const Tensor x = Tensor::Full(InputOf(shape), 1), dy = Tensor::Full(OutputOf(shape), 2);
    x.data<float>()[4] = std::numeric_limits<float>::infinity();
    const Tensor dw = Tensor::Empty(WeightOf(shape));
    ConvolutionBackwardWeight(shape, x, dy, dw);
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(dw.ToVector<float>(), (std::vector<float>{18, 18, infinity, 18, 18, infinity}));
  });
}

// Nor does it where lanes are columns: of one output.
TEST(ConvolutionWeightGradientTest, NotFiniteValuesStayWithTheirTapsOfOneOutput) {
  ForEachIsa([] {
    const ConvolutionShape shape = {1, 1, 1, 1, Axis(3, 1), Axis(5, 3)};
    const Tensor x = Tensor::Full(InputOf(shape), 1), dy = Tensor::Full(OutputOf(shape), 2);
    x.data<float>()[4] = std::numeric_limits<float>::infinity();
    const Tensor dw = Tensor::Empty(WeightOf(shape));
    ConvolutionBackwardWeight(shape, x, dy, dw);
    EXPECT_EQ(dw.ToVector<float>(),
              (std::vector<float>{18, 18, std::numeric_limits<float>::infinity()}));
  });
}

TEST(ConvolutionWeightGradientTest, ThreadsDoNotChangeBits) {
  const ConvolutionShape shape = {9, 40, 24, 1, Axis(14, 3, 1, 1), Axis(14, 3, 1, 1)};
  const Tensor x = RandomTensor(InputOf(shape), DType::kFloat32, 1);
  const Tensor dy = RandomTensor(OutputOf(shape), DType::kFloat32, 2);
  ExpectSameBitsOnThreads([&] {
    const Tensor dw = Tensor::Empty(WeightOf(shape));
    ConvolutionBackwardWeight(shape, x, dy, dw);
    return dw;
  });
}

}  // namespace
}  // namespace ops::cpu
