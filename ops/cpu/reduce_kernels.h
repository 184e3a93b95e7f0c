// The loops of reduce.h for one floating dtype. All sums are calculated in float64.
#pragma once

#include <cstdint>

namespace ops::cpu {

struct ReduceKernels {
  double (*sum)(const void* x, int64_t n);
  double (*sum_of_squares)(const void* x, int64_t n);
  // sums[j] += x[0, j] + ... + x[rows - 1, j], where rows are `stride` elements apart.
  void (*add_columns)(const void* x, int64_t rows, int64_t columns, int64_t stride, double* sums);
  // out[i] = sums[i], or that much more, rounded once.
  void (*store)(const double* sums, int64_t n, void* out, bool accumulate);
  bool (*all_finite)(const void* x, int64_t n);
};

inline constexpr int kNumFloatingDTypes = 4;

namespace baseline {
extern const ReduceKernels kReduceKernels[kNumFloatingDTypes];  // by DType
}
namespace avx2 {
extern const ReduceKernels kReduceKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const ReduceKernels kReduceKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
