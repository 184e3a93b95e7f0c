// What kernel sources share: how elements of each dtype are read, calculated with and written.
// For X_kernels.cc only. All of it is in the namespace of the instruction set and internal to one
// file: were such a function shared, the linker could put its AVX-512 copy into the baseline.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/tensor/dtype.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// The type that elements of type T are calculated in.
template <class T>
using Compute = std::conditional_t<std::is_class_v<T>, float, T>;

template <class T>
inline T Load(T x) {
  return x;
}

inline float Load(BFloat16 x) { return __builtin_bit_cast(float, uint32_t{x.bits} << 16); }

// The exponent moves from bias 15 to 127 by a multiplication, which normalises subnormals too.
inline float Load(Float16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16;
  const uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  const float scaled = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const uint32_t not_finite = 0x7f800000u | magnitude;
  const uint32_t finite = __builtin_bit_cast(uint32_t, scaled);
  return __builtin_bit_cast(float, sign | (magnitude >= 0x0f800000u ? not_finite : finite));
}

template <class T>
struct Rounded {
  static T From(T x) { return x; }
};

// The same rounding as in BFloat16(float) and Float16(float), without branches.
template <>
struct Rounded<BFloat16> {
  static BFloat16 From(float x) {
    const uint32_t word = __builtin_bit_cast(uint32_t, x);
    const uint32_t number = (word + 0x7fff + (word >> 16 & 1)) >> 16;
    const uint32_t nan = word >> 16 | 0x40;
    BFloat16 result;
    result.bits = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? nan : number);
    return result;
  }
};

template <>
struct Rounded<Float16> {
  static Float16 From(float x) {
    const uint32_t word = __builtin_bit_cast(uint32_t, x);
    const uint32_t magnitude = word & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    const uint32_t subnormal = __builtin_bit_cast(uint32_t, shifted) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    Float16 result;
    result.bits = static_cast<uint16_t>((word >> 16 & 0x8000u) | half);
    return result;
  }
};

template <class T>
inline T Round(Compute<T> x) {
  return Rounded<T>::From(x);
}

// A register of the instruction set, for loops that GCC doesn't vectorise by itself.
constexpr int kVectorBytes = __BIGGEST_ALIGNMENT__;  // 16, 32 or 64

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  static constexpr int kWidth = kVectorBytes / sizeof(T);
};
template <class T>
using Vector = typename VectorOf<T>::Type;

// f(0) ... f(n - 1), vectorised: no call may depend on another. An output may be an input itself.
template <class F>
[[gnu::always_inline]] inline void ForEach(int64_t n, F f) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) f(i);
}

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
