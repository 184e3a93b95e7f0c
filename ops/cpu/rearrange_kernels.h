// The loops of rearrange.h. Strides count elements.
#pragma once

#include <cstdint>

namespace ops::cpu {

struct RearrangeKernels {
  // out[j * out_stride + i] = x[i * x_stride + j] for i < rows and j < columns.
  using Transpose = void (*)(const void* x, int64_t x_stride, void* out, int64_t out_stride,
                             int64_t rows, int64_t columns);
  // out[i * out_stride] = x[i * x_stride] for i < n, or that much more.
  using Strided = void (*)(const void* x, int64_t x_stride, void* out, int64_t out_stride,
                           int64_t n);

  Transpose transpose[4];  // elements of 1, 2, 4, 8 bytes
  Strided copy[4];         // the same
  Strided add[4];          // by floating DType
};

namespace baseline {
extern const RearrangeKernels kRearrangeKernels;
}
namespace avx2 {
extern const RearrangeKernels kRearrangeKernels;
}
namespace avx512 {
extern const RearrangeKernels kRearrangeKernels;
}

}  // namespace ops::cpu
