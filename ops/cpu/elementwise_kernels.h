// The loops of elementwise.h for one dtype: contiguous elements, any alignment. `out` may be an
// input itself.
#pragma once

#include <cstdint>

namespace ops::cpu {

// How the operands of a binary kernel are read: as n elements each, or one of them as one element.
enum class Operands { kVectorVector, kVectorScalar, kScalarVector };

struct ElementwiseKernels {
  using Binary = void (*)(const void* a, const void* b, void* out, int64_t n);
  using WithScalar = void (*)(const void* x, double scalar, void* out, int64_t n);

  using Select = void (*)(const uint8_t* condition, const void* a, const void* b, void* out,
                          int64_t n);
  using Unary = void (*)(const void* x, void* out, int64_t n);

  Binary binary[4][3];   // [BinaryOp][Operands]
  Binary compare[4][3];  // [Comparison][Operands], to uint8
  Select select[3];      // [Operands]
  // Floating dtypes only.
  WithScalar scale;
  WithScalar add_scaled;  // out += scalar x
  WithScalar add_scalar;
  void (*clamp)(const void* x, double low, double high, void* out, int64_t n);
  Unary cast[4];  // to another floating DType
};

inline constexpr int kNumDTypes = 7;

namespace baseline {
extern const ElementwiseKernels kElementwiseKernels[kNumDTypes];  // by DType
}
namespace avx2 {
extern const ElementwiseKernels kElementwiseKernels[kNumDTypes];
}
namespace avx512 {
extern const ElementwiseKernels kElementwiseKernels[kNumDTypes];
}

}  // namespace ops::cpu
