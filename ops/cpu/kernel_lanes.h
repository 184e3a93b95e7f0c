// Sums for kernel sources: 16 partial sums in float64, whatever the instruction set, added up in a
// fixed order at the end; and maxima. For X_kernels.cc only, see kernel_element.h.
#pragma once

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

constexpr int kLanes = 16;

class LaneSums {
 public:
  // Adds values[i] to lane i mod kLanes; `count` is a multiple of kLanes.
  [[gnu::always_inline]] inline void Add(const double* values, int64_t count) {
    for (int64_t i = 0; i < count; i += kLanes) {
      for (int j = 0; j < kVectors; ++j) {
        Vector<double> added;
        __builtin_memcpy(&added, values + i + j * kWidth, sizeof(added));
        sums_[j] += added;
      }
    }
  }

  // The sum of all lanes and of count < kLanes more values, by halves.
  [[gnu::always_inline]] inline double Finish(const double* values, int64_t count) const {
    alignas(kVectorBytes) double lanes[kLanes];
    __builtin_memcpy(lanes, sums_, sizeof(lanes));
    for (int64_t i = 0; i < count; ++i) lanes[i] += values[i];
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    return lanes[0];
  }

 private:
  static constexpr int kWidth = VectorOf<double>::kWidth;
  static constexpr int kVectors = kLanes / kWidth;
  Vector<double> sums_[kVectors] = {};
};

// f(0) + ... + f(n - 1), with f's values in float64: block by block, so that GCC vectorises f as a
// loop of its own.
template <class F>
[[gnu::always_inline]] inline double SumOf(int64_t n, F f) {
  constexpr int64_t kBlock = 256;
  alignas(kVectorBytes) double values[kBlock];
  LaneSums sums;
  int64_t begin = 0;
  for (; n - begin >= kBlock; begin += kBlock) {
    ForEach(kBlock, [&, begin](int64_t i) { values[i] = f(begin + i); });
    sums.Add(values, kBlock);
  }
  const int64_t rest = n - begin;
  const int64_t whole = rest / kLanes * kLanes;
  ForEach(rest, [&, begin](int64_t i) { values[i] = f(begin + i); });
  sums.Add(values, whole);
  return sums.Finish(values + whole, rest - whole);
}

// The largest of f(0) ... f(n - 1), -infinity of nothing; NaN is passed over.
template <class C, class F>
[[gnu::always_inline]] inline C LargestOf(int64_t n, F f) {
  constexpr int64_t kWidth = VectorOf<C>::kWidth;
  const C nothing = -__builtin_huge_val();
  alignas(kVectorBytes) C values[kWidth], largest[kWidth];
  Vector<C> lanes = Vector<C>{} + nothing;
  int64_t begin = 0;
  for (; n - begin >= kWidth; begin += kWidth) {
    ForEach(kWidth, [&, begin](int64_t i) { values[i] = f(begin + i); });
    Vector<C> next;
    __builtin_memcpy(&next, values, sizeof(next));
    lanes = next > lanes ? next : lanes;
  }
  __builtin_memcpy(largest, &lanes, sizeof(lanes));
  for (int64_t i = 0; i < n - begin; ++i) {
    const C value = f(begin + i);
    largest[i] = value > largest[i] ? value : largest[i];
  }
  for (int64_t half = kWidth / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) {
      largest[i] = largest[i + half] > largest[i] ? largest[i + half] : largest[i];
    }
  }
  return largest[0];
}

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
