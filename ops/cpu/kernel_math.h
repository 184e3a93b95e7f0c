// Elementary functions for kernel sources, without branches, so that loops over them are
// vectorised. For X_kernels.cc only, see kernel_element.h.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// exp(x) to about one unit in the last place, vectorised: x = n log(2) + r with |r| <= log(2) / 2,
// log(2) in two parts whose first has few bits (Cody and Waite 1980), and exp(r) by its Taylor
// series. Results that would be subnormal are 0; NaN stays NaN.
inline float Exp(float x) {
  constexpr float kRoundToInteger = 0x1.8p23f;  // has 2^0 as its last bit
  const float shifted = x * 0x1.715476p0f + kRoundToInteger;
  const float n = shifted - kRoundToInteger;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = (series * r) * r + r + 1;
  const uint32_t exponent = __builtin_bit_cast(uint32_t, shifted) - 0x4b400000u;  // n
  const float power = __builtin_bit_cast(float, (exponent + 127) << 23);
  float result = series * power;
  result = x < -87.3f ? 0.0f : result;
  return x > 88.0f ? __builtin_huge_valf() : result;
}

inline double Exp(double x) { return __builtin_exp(x); }

// 1 / (1 + exp(-x)).
template <class C>
inline C Sigmoid(C x) {
  return 1 / (1 + Exp(-x));
}

// tanh(x) to about one unit in the last place: near 0 by a polynomial in x^2, fitted for the
// smallest largest error, elsewhere 1 - 2 / (exp(2 |x|) + 1).
inline float Tanh(float x) {
  const float magnitude = __builtin_fabsf(x), square = x * x;
  float series = -0x1.8f63cap-8f;
  series = series * square + 0x1.57fb2cp-6f;
  series = series * square - 0x1.b92424p-5f;
  series = series * square + 0x1.110e12p-3f;
  series = series * square - 0x1.555552p-2f;
  const float near = x + x * (square * series);
  const float far = __builtin_copysignf(1 - 2 / (Exp(2 * magnitude) + 1), x);
  return magnitude < 0.625f ? near : far;
}

inline double Tanh(double x) { return __builtin_tanh(x); }

// The standard normal distribution at x: P(X <= x), to about two units in the last place, and its
// density.
template <class C>
struct NormalDistribution {
  C probability;
  C density;
};

// P(X <= -t) = exp(-t^2 / 2) q p(q) with q = 1 / (1 + 0.35 t), as in Abramowitz and Stegun 7.1.26,
// and a polynomial p that is fitted for the smallest largest relative error, 3e-8, on [0, 14].
inline NormalDistribution<float> Normal(float x) {
  const float power = Exp(-0.5f * (x * x));
  const float q = 1 / (1 + 0.35f * __builtin_fabsf(x));
  float series = -0x1.dd87c4p-6f;
  series = series * q + 0x1.26db2ap-3f;
  series = series * q - 0x1.05da8p-2f;
  series = series * q + 0x1.45fe54p-3f;
  series = series * q - 0x1.7aa85p-6f;
  series = series * q + 0x1.b029dap-4f;
  series = series * q + 0x1.ead5b2p-4f;
  series = series * q + 0x1.1e6feap-3f;
  series = series * q + 0x1.1df1d4p-3f;
  const float tail = power * (q * series);
  return {x > 0 ? 1 - tail : tail, 0x1.988454p-2f * power};  // 1 / sqrt(2 pi)
}

inline NormalDistribution<double> Normal(double x) {
  return {0.5 * __builtin_erfc(-0x1.6a09e667f3bcdp-1 * x),
          0x1.9884533d43651p-2 * __builtin_exp(-0.5 * (x * x))};
}

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
