// The loops of rotary.h for one dtype: one position of one sequence.
#pragma once

#include <cstdint>

namespace ops::cpu {

// `num_heads` heads of two halves, `half` elements each, and `num_values` elements behind them all.
struct RotaryRow {
  const void* x;
  void* y;
  int64_t num_heads, half, num_values;
};

struct RotaryKernels {
  // Rotates all heads by the same `half` angles and copies the values; `accumulate` adds to y.
  void (*rotate)(const RotaryRow& row, const double* cosines, const double* sines, bool accumulate);
};

inline constexpr int kNumRotaryDTypes = 4;  // the first of DType

namespace baseline {
extern const RotaryKernels kRotaryKernels[kNumRotaryDTypes];  // by DType
}
namespace avx2 {
extern const RotaryKernels kRotaryKernels[kNumRotaryDTypes];
}
namespace avx512 {
extern const RotaryKernels kRotaryKernels[kNumRotaryDTypes];
}

}  // namespace ops::cpu
