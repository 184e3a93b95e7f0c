// What the processor could do at best, as loops for each instruction set (ops/cpu/isa.h).
#pragma once

#include <cstdint>

namespace benchmarks {

struct LimitKernels {
  // Multiplies and adds float32 registers, `rounds` times; returns how many operations that were,
  // two for each element of each multiplication with addition. `sink` gets a result, so that the
  // loop isn't left out.
  double (*multiply_add)(int64_t rounds, float* sink);
  // Reads and writes num_bytes in place, a multiple of 64: x[i] += 1 for float32 x.
  void (*update)(void* x, int64_t num_bytes);
};

namespace baseline {
extern const LimitKernels kLimitKernels;
}
namespace avx2 {
extern const LimitKernels kLimitKernels;
}
namespace avx512 {
extern const LimitKernels kLimitKernels;
}

}  // namespace benchmarks
