// The element types of tensors and of buffers that travel between ranks, and one way to turn a
// run-time DType into a compile-time type:
//
//   Dispatch(tensor.dtype(), [&]<class T>() { Fill(tensor.data<T>(), tensor.num_elements()); });
//
// bfloat16 and float16 are storage formats: arithmetic on them is done in float32.
#pragma once

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace ops {

enum class DType : uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16, kInt64, kInt32, kUInt8 };

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                       DType::kFloat16, DType::kInt64,   DType::kInt32,
                                       DType::kUInt8};

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUInt8:
      return 1;
  }
  return 0;
}

constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat16;
}

// PyTorch's name: "float32", "bfloat16", "int64", "uint8", ...
std::string_view Name(DType dtype);

// The first half of a float32: 8 bits of exponent, 7 of mantissa. Conversion rounds to nearest
// even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa, largest finite value 65504. Conversion
// rounds to nearest even; too large becomes infinity; NaN stays NaN.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
};

template <class T>
inline constexpr DType kDTypeOf = [] { static_assert(sizeof(T) == 0, "not an element type"); }();
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<Float16> = DType::kFloat16;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kUInt8;

// Calls f.template operator()<T>() with the C++ type of `dtype`.
template <class F>
decltype(auto) Dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f.template operator()<float>();
    case DType::kFloat64:
      return f.template operator()<double>();
    case DType::kBFloat16:
      return f.template operator()<BFloat16>();
    case DType::kFloat16:
      return f.template operator()<Float16>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kUInt8:
      return f.template operator()<uint8_t>();
  }
  throw std::invalid_argument("not a dtype");
}

// Throws std::invalid_argument that `operation` knows float32 and float64 only, not `dtype`.
[[noreturn]] void ThrowNotFloat32Or64(std::string_view operation, DType dtype);

// The same for operations that calculate in float32 and float64 only.
template <class F>
decltype(auto) DispatchFloat(std::string_view operation, DType dtype, F&& f) {
  if (dtype == DType::kFloat32) return f.template operator()<float>();
  if (dtype == DType::kFloat64) return f.template operator()<double>();
  ThrowNotFloat32Or64(operation, dtype);
}

}  // namespace ops
