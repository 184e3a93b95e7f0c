#include "ops/cpu/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr RotaryParameters kParameters = {.num_heads = 2, .base = 10000, .first_position = 7};

std::vector<double> Reference(const Tensor& qkv, double direction) {
  const std::vector<double> x = qkv.ToVector<double>();
  std::vector<double> y = x;
  const int64_t time = qkv.dim(1), row = qkv.dim(2), head_width = row / 3 / kParameters.num_heads;
  for (int64_t r = 0; r < qkv.dim(0) * time; ++r) {
    for (int64_t head = 0; head < 2 * kParameters.num_heads; ++head) {
      for (int64_t i = 0; i < head_width / 2; ++i) {
        const double position = static_cast<double>(kParameters.first_position + r % time);
        const double angle =
            direction * position * std::pow(kParameters.base, -2.0 * i / head_width);
        const int64_t a = r * row + head * head_width + i, b = a + head_width / 2;
        y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        y[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
    }
  }
  return y;
}

double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-13;
    case DType::kFloat16:
      return 1e-3;
    case DType::kBFloat16:
      return 8e-3;
    default:
      return 5e-7;
  }
}

void ExpectNear(const Tensor& actual, const std::vector<double>& expected, double factor) {
  const std::vector<double> values = actual.ToVector<double>();
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[i], factor * expected[i],
                factor * Tolerance(actual.dtype()) * (1 + std::abs(expected[i])))
        << i;
  }
}

TEST(RotaryTest, RotatesQueriesAndKeys) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t time : {0, 1, 15, 16, 17, 100}) {
        for (const int64_t head_width : {2, 6, 34, 64}) {
          const Tensor qkv = RandomTensor({2, time, 6 * head_width}, dtype, 1);
          const Tensor y = Misaligned(qkv.shape(), dtype);
          for (const bool inverse : {false, true}) {
            const std::vector<double> expected = Reference(qkv, inverse ? -1 : 1);
            RotaryEmbedding(qkv, y, kParameters, inverse, /*accumulate=*/false);
            ExpectNear(y, expected, 1);
            RotaryEmbedding(qkv, y, kParameters, inverse, /*accumulate=*/true);
            ExpectNear(y, expected, 2);
          }
        }
      }
    }
  });
}

TEST(RotaryTest, ThreadsDoNotChangeBits) {
  const Tensor qkv = RandomTensor({2, 100, 96}, DType::kFloat32, 1);
  ExpectSameBitsOnThreads([&] {
    const Tensor y = Tensor::Empty(qkv.shape());
    RotaryEmbedding(qkv, y, kParameters, false, false);
    return y;
  });
}

}  // namespace
}  // namespace ops::cpu
