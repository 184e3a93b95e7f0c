#include "ops/tensor/dtype.h"

#include <fmt/format.h>

#include <cmath>

namespace ops {

std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    case DType::kInt64:
      return "int64";
    case DType::kInt32:
      return "int32";
    case DType::kUInt8:
      return "uint8";
  }
  return "unknown dtype";
}

BFloat16::BFloat16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    bits = static_cast<uint16_t>(word >> 16 | 0x40);  // quiet, and never rounded to infinity
    return;
  }
  bits = static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

// Fabian Giesen's method: let float32 addition do the rounding, at an exponent where the bits that
// binary16 lacks fall off the end.
Float16::Float16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = word >> 16 & 0x8000;
  uint32_t magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    bits = static_cast<uint16_t>(sign | 0x7e00);  // NaN
  } else if (magnitude >= 0x477ff000) {
    bits = static_cast<uint16_t>(sign | 0x7c00);  // rounds to 2^16 or more: infinity
  } else if (magnitude < 0x38800000) {            // below 2^-14: subnormal
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  } else {
    magnitude += 0xc8000fff + (magnitude >> 13 & 1);  // exponent bias 127 -> 15, nearest even
    bits = static_cast<uint16_t>(sign | magnitude >> 13);
  }
}

Float16::operator float() const {
  const uint32_t sign = uint32_t{bits} << 16 & 0x80000000;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00)
    return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude < 0x400) {  // subnormal: multiples of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
}

void ThrowNotFloat32Or64(std::string_view operation, DType dtype) {
  throw std::invalid_argument(
      fmt::format("{}: expected float32 or float64, got {}", operation, Name(dtype)));
}

}  // namespace ops
