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

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
