// bfloat16 and float16 to float32 and back, for operations that calculate with whole matrices.
#pragma once

#include <cstdint>

namespace ops::cpu {

struct HalfKernels {
  void (*load)(const void* from, float* to, int64_t n);
  void (*round)(const float* from, void* to, int64_t n);
};

struct HalfKernelTable {
  HalfKernels bfloat16, float16;
};

namespace baseline {
extern const HalfKernelTable kHalfKernels;
}
namespace avx2 {
extern const HalfKernelTable kHalfKernels;
}
namespace avx512 {
extern const HalfKernelTable kHalfKernels;
}

}  // namespace ops::cpu
