#include "tests/benchmarks/floor_kernels.h"

namespace benchmarks::OPS_CPU_ISA {
namespace {

void Add(float* sums, const float* a, const float* b, int64_t num_elements) {
#pragma GCC ivdep  // sums may be a, but nothing else overlaps
  for (int64_t i = 0; i < num_elements; ++i) sums[i] = a[i] + b[i];
}

}  // namespace

constinit const FloorKernels kFloorKernels = {Add};

}  // namespace benchmarks::OPS_CPU_ISA
