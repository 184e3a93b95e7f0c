// Sums for kernel sources: 16 partial sums in float64, whatever the instruction set, added up in a
// fixed order at the end. For X_kernels.cc only, see kernel_element.h.
#pragma once

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

constexpr int kLanes = 16;

// GCC splits these into as many registers as the instruction set needs.
typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));

inline double SumOfLanes(const double* lanes) {
  double sums[kLanes];
  for (int i = 0; i < kLanes; ++i) sums[i] = lanes[i];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// f(0) + ... + f(n - 1), with f's values in float64.
template <class F>
[[gnu::always_inline]] inline double SumOf(int64_t n, F f) {
  Lanes lanes = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes values;
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = f(i + lane);
    lanes += values;
  }
  double sums[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) sums[lane] = lanes[lane];
  for (int lane = 0; i < n; ++i, ++lane) sums[lane] += f(i);
  return SumOfLanes(sums);
}

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
