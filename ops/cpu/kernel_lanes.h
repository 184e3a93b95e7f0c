// Sums for kernel sources: 16 partial sums in float64, whatever the instruction set, added up in a
// fixed order at the end; and maxima. For X_kernels.cc only, see kernel_element.h.
#pragma once

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

constexpr int kLanes = 16;

// Without a detour over memory, where the loads of one half would wait for the stores of another.
template <class V>
[[gnu::always_inline]] inline double SumByHalves(V x) {
  constexpr int kWidth = sizeof(V) / sizeof(double);
  if constexpr (kWidth == 8) {
    return SumByHalves(__builtin_shufflevector(x, x, 0, 1, 2, 3) +
                       __builtin_shufflevector(x, x, 4, 5, 6, 7));
  } else if constexpr (kWidth == 4) {
    return SumByHalves(__builtin_shufflevector(x, x, 0, 1) + __builtin_shufflevector(x, x, 2, 3));
  } else {
    static_assert(kWidth == 2);
    return x[0] + x[1];
  }
}

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

  // The sum of all lanes, by halves.
  [[gnu::always_inline]] inline double Finish() const {
    Vector<double> sums[kVectors];
    for (int j = 0; j < kVectors; ++j) sums[j] = sums_[j];
    for (int half = kVectors / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    return SumByHalves(sums[0]);
  }

 private:
  static constexpr int kWidth = VectorOf<double>::kWidth;
  static constexpr int kVectors = kLanes / kWidth;
  Vector<double> sums_[kVectors] = {};
};

// Fills values[count], ... with zeros up to a whole round of the lanes; returns their number.
[[gnu::always_inline]] inline int64_t PadToLanes(double* values, int64_t count) {
  const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = count; i < padded; ++i) values[i] = 0;
  return padded;
}

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
  ForEach(n - begin, [&, begin](int64_t i) { values[i] = f(begin + i); });
  sums.Add(values, PadToLanes(values, n - begin));
  return sums.Finish();
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
