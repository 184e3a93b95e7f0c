// The loops of an all-reduce without any library, for each instruction set (ops/cpu/isa.h).
#pragma once

#include <cstdint>

namespace benchmarks {

struct FloorKernels {
  // sums[i] = a[i] + b[i]; `sums` may be `a`.
  void (*add)(float* sums, const float* a, const float* b, int64_t num_elements);
};

namespace baseline {
extern const FloorKernels kFloorKernels;
}
namespace avx2 {
extern const FloorKernels kFloorKernels;
}
namespace avx512 {
extern const FloorKernels kFloorKernels;
}

}  // namespace benchmarks
