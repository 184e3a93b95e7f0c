// The loops of pooling.h, for one dtype and one plane [h, w] of one channel of one image. Values
// are compared and summed in the type that the dtype is calculated in.
#pragma once

#include <cstdint>

#include "ops/cpu/pooling_shape.h"

namespace ops::cpu {

// The windows [begin[i], end[i]) of any kind, and what their sums are divided by.
struct PoolingWindows {
  int64_t in, out;
  const int64_t *begin, *end, *divisor;
};

// y[i, j] = the largest of its window, tap[i, j] = which of the window's elements (counted row by
// row, over the whole window) that is: the first of equals, the last NaN. `row` has room for
// twice width.out elements of the type that is calculated in.
struct MaxOfTaps {
  PoolingAxis height, width;
  const void* x;
  void* y;
  uint8_t* taps;
  void* row;
};

// gradient[what was the largest] += dy; `gradient` is of the type that is calculated in.
struct MaxOfTapsBackward {
  PoolingAxis height, width;
  const void* dy;
  const uint8_t* taps;
  void* gradient;
};

// The same over windows of any kind, with indices into the plane.
struct MaxOfWindows {
  PoolingWindows height, width;
  const void* x;
  void* y;
  int64_t* indices;
};

// y = sum of each window over both divisors. `row` has room for width.in elements of the type that
// is calculated in.
struct Average {
  PoolingWindows height, width;
  const void* x;
  void* y;
  void* row;
};

// gradient += dy over both divisors, in each element of the window.
struct AverageBackward {
  PoolingWindows height, width;
  const void* dy;
  void* gradient;
  void* row;  // as above
};

struct PoolingKernels {
  void (*max_of_taps)(const MaxOfTaps&);
  void (*max_of_four)(const MaxOfTaps&);  // windows of 2 x 2 side by side; needs no row
  void (*max_of_taps_backward)(const MaxOfTapsBackward&);
  // The same, as windows of 2 x 2 side by side: writes dx at once.
  void (*max_of_four_backward)(const MaxOfTapsBackward&, bool accumulate, void* dx);
  void (*max_of_windows)(const MaxOfWindows&);
  // gradient[indices[i]] += dy[i] for i in [0, n).
  void (*scatter)(const void* dy, const int64_t* indices, int64_t n, void* gradient);
  void (*average)(const Average&);
  void (*average_backward)(const AverageBackward&);
  // dx[i] (+)= gradient[i] for i in [0, n).
  void (*store)(const void* gradient, bool accumulate, void* dx, int64_t n);
};

inline constexpr int kNumPoolingDTypes = 4;  // float32, float64, bfloat16, float16: by DType

namespace baseline {
extern const PoolingKernels kPoolingKernels[kNumPoolingDTypes];
}
namespace avx2 {
extern const PoolingKernels kPoolingKernels[kNumPoolingDTypes];
}
namespace avx512 {
extern const PoolingKernels kPoolingKernels[kNumPoolingDTypes];
}

}  // namespace ops::cpu
