// The loops of loss.h for one dtype, over contiguous elements or rows.
#pragma once

#include <cstdint>

namespace ops::cpu {

template <class T>
struct LossKernels {
  // sum of (x - target)^2, in float64.
  double (*squared_error)(const T* x, const T* target, int64_t n);
  // dx = or += factor (x - target).
  void (*squared_error_backward)(const T* x, const T* target, T factor, T* dx, int64_t n,
                                 bool accumulate);
  // The sum of the rows' losses, in float64.
  double (*cross_entropy)(const T* logits, const int64_t* targets, int64_t rows, int64_t classes,
                          T* log_sums);
  // dlogits = or += factor (softmax - one hot).
  void (*cross_entropy_backward)(const T* logits, const int64_t* targets, const T* log_sums,
                                 int64_t rows, int64_t classes, T factor, T* dlogits,
                                 bool accumulate);
};

struct LossKernelTable {
  LossKernels<float> float32;
  LossKernels<double> float64;
};

namespace baseline {
extern const LossKernelTable kLossKernels;
}
namespace avx2 {
extern const LossKernelTable kLossKernels;
}
namespace avx512 {
extern const LossKernelTable kLossKernels;
}

}  // namespace ops::cpu
