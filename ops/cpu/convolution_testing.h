// What the tests of convolutions share: the definition, and shapes that hit every corner.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/cpu/convolution_shape.h"
#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {

inline ConvolutionAxis Axis(int64_t in, int64_t kernel, int64_t stride = 1, int64_t padding = 0,
                            int64_t dilation = 1) {
  const int64_t out = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  return {in, out, kernel, stride, padding, dilation};
}

// Calls f(index into x, index into weight, index into y) for each product of the definition.
template <class F>
void ForEachProduct(const ConvolutionShape& s, F f) {
  const int64_t channels = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  const auto &h = s.height, &w = s.width;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t image = (n * s.in_channels + o / outputs * channels + c) * s.in_pixels();
        for (int64_t pixel = 0; pixel < s.out_pixels(); ++pixel) {
          for (int64_t k = 0; k < s.kernel_elements(); ++k) {
            const int64_t row = pixel / w.out * h.stride + k / w.kernel * h.dilation - h.padding;
            const int64_t column = pixel % w.out * w.stride + k % w.kernel * w.dilation - w.padding;
            if (row < 0 || row >= h.in || column < 0 || column >= w.in) continue;
            f(image + row * w.in + column, (o * channels + c) * s.kernel_elements() + k,
              (n * s.out_channels + o) * s.out_pixels() + pixel);
          }
        }
      }
    }
  }
}

inline Shape InputOf(const ConvolutionShape& s) {
  return {s.batch, s.in_channels, s.height.in, s.width.in};
}
inline Shape WeightOf(const ConvolutionShape& s) {
  return {s.out_channels, s.in_channels / s.groups, s.height.kernel, s.width.kernel};
}
inline Shape OutputOf(const ConvolutionShape& s) {
  return {s.batch, s.out_channels, s.height.out, s.width.out};
}

inline std::string Describe(const ConvolutionShape& s) {
  return "x " + InputOf(s).ToString() + ", weight " + WeightOf(s).ToString() + ", y " +
         OutputOf(s).ToString();
}

// Each differs from what is near it in one respect.
inline std::vector<ConvolutionShape> ConvolutionShapes() {
  return {
      {1, 1, 1, 1, Axis(1, 1), Axis(1, 1)},
      {2, 3, 5, 1, Axis(5, 3), Axis(7, 3)},
      {2, 1, 16, 1, Axis(28, 3, 1, 1), Axis(28, 3, 1, 1)},
      {2, 16, 1, 1, Axis(9, 3, 1, 1), Axis(9, 3, 1, 1)},
      {3, 16, 32, 1, Axis(14, 3, 1, 1), Axis(14, 3, 1, 1)},
      {2, 7, 33, 1, Axis(14, 3, 2, 1), Axis(15, 3, 2, 1)},
      {2, 16, 32, 1, Axis(28, 1, 2), Axis(28, 1, 2)},
      {2, 4, 6, 2, Axis(8, 3, 1, 1), Axis(8, 2, 1, 1)},
      {2, 6, 6, 6, Axis(9, 3, 1, 1), Axis(9, 3, 1, 1)},
      {2, 3, 12, 3, Axis(9, 3, 2, 0), Axis(10, 5, 3, 2)},
      {1, 2, 3, 1, Axis(11, 3, 1, 2, 2), Axis(13, 2, 2, 3, 3)},
      {1, 2, 3, 1, Axis(12, 2, 5, 0), Axis(12, 3, 4, 1)},
      {1, 2, 9, 1, Axis(6, 2, 3, 4), Axis(6, 3, 2, 5)},
      {2, 2, 10, 1, Axis(1, 1), Axis(37, 5, 1, 2)},
      {20, 17, 11, 1, Axis(2, 1), Axis(3, 3, 1, 1)},
      {40, 5, 11, 1, Axis(1, 1), Axis(1, 1)},
      {1, 40, 20, 1, Axis(40, 5, 1, 2), Axis(33, 3, 1, 1)},
      {1, 100, 4, 1, Axis(6, 7, 1, 3), Axis(6, 7, 1, 3)},
      {2, 128, 130, 1, Axis(4, 3, 1, 1), Axis(5, 3, 2, 2)},
      {1, 129, 128, 1, Axis(5, 2, 1, 0, 2), Axis(4, 1, 3)},
      {0, 3, 4, 1, Axis(5, 3), Axis(5, 3)},
      {2, 0, 4, 1, Axis(5, 3), Axis(5, 3)},
      {2, 3, 0, 1, Axis(5, 3), Axis(5, 3)},
  };
}

// Sums of some thousand products at most, rounded once.
inline double ToleranceOf(DType dtype) {
  return dtype == DType::kFloat64   ? 1e-13
         : dtype == DType::kFloat32 ? 1e-5
         : dtype == DType::kFloat16 ? 1e-3
                                    : 8e-3;
}

// |actual - expected| within the tolerance of the largest that the sums of products can be.
inline void ExpectNear(const Tensor& actual, const std::vector<double>& expected,
                       const std::vector<double>& magnitudes) {
  const std::vector<double> values = actual.ToVector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], ToleranceOf(actual.dtype()) * (1 + magnitudes[i]))
        << "element " << i << " of " << actual.Describe();
  }
}

}  // namespace ops::cpu
