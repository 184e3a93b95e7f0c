// The loops of softmax.h for one dtype and kind: along rows, whose elements follow each other, or
// along columns, whose elements are `stride` apart.
#pragma once

#include <cstdint>

namespace ops::cpu {

inline constexpr int64_t kSoftmaxColumns = 64;  // that a call takes at most

struct SoftmaxKernels {
  void (*rows)(const void* x, int64_t rows, int64_t length, void* y);
  void (*rows_backward)(const void* y, const void* dy, int64_t rows, int64_t length, void* dx,
                        bool accumulate);
  void (*columns)(const void* x, int64_t length, int64_t stride, int64_t columns, void* y);
  void (*columns_backward)(const void* y, const void* dy, int64_t length, int64_t stride,
                           int64_t columns, void* dx, bool accumulate);
};

inline constexpr int kNumSoftmaxDTypes = 4;  // the first of DType

namespace baseline {
extern const SoftmaxKernels kSoftmaxKernels[2][kNumSoftmaxDTypes];  // by SoftmaxKind and DType
}
namespace avx2 {
extern const SoftmaxKernels kSoftmaxKernels[2][kNumSoftmaxDTypes];
}
namespace avx512 {
extern const SoftmaxKernels kSoftmaxKernels[2][kNumSoftmaxDTypes];
}

}  // namespace ops::cpu
