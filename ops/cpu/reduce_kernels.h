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
  void (*add_one)(const void* x, void* out);  // out += x, of one element each
};

// The largest of x[0], x[stride], ... x[(n - 1) stride], and which it is, for each of `columns`
// neighbours; n is at least 1. NaN is larger than all; of equals the first counts.
using MaxKernel = void (*)(const void* x, int64_t n, int64_t stride, int64_t columns, void* values,
                           int64_t* indices);

inline constexpr int kNumFloatingDTypes = 4;
inline constexpr int kNumMaxDTypes = 7;

namespace baseline {
extern const ReduceKernels kReduceKernels[kNumFloatingDTypes];  // by DType
extern const MaxKernel kMaxKernels[kNumMaxDTypes];
}  // namespace baseline
namespace avx2 {
extern const ReduceKernels kReduceKernels[kNumFloatingDTypes];
extern const MaxKernel kMaxKernels[kNumMaxDTypes];
}  // namespace avx2
namespace avx512 {
extern const ReduceKernels kReduceKernels[kNumFloatingDTypes];
extern const MaxKernel kMaxKernels[kNumMaxDTypes];
}  // namespace avx512

}  // namespace ops::cpu
