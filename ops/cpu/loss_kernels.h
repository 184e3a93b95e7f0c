// The loops of loss.h for one dtype, over contiguous elements or rows.
#pragma once

#include <cstdint>

namespace ops::cpu {

// Where the gradient of a loss comes from: factor dloss[i], or factor alone where that is null.
struct LossGradient {
  const void* dloss;
  double factor;
};

struct ElementLossKernels {
  // The sum of the losses, in float64.
  double (*sum)(const void* x, const void* target, double delta, int64_t n);
  void (*each)(const void* x, const void* target, double delta, void* loss, int64_t n);
  // dx = or += gradient times the loss's slope.
  void (*backward)(const void* x, const void* target, double delta, const LossGradient& gradient,
                   void* dx, int64_t n, bool accumulate);
};

struct CrossEntropyRows {
  const void* logits;
  const int64_t* targets;
  int64_t rows, classes, ignore_index;
  double label_smoothing;
};

inline constexpr int kNumElementLosses = 5;  // ElementLoss

struct LossKernels {
  ElementLossKernels element[kNumElementLosses];
  // The sum of the rows' losses, in float64; each of them too where `losses` isn't null.
  // `log_sums` is float64 where the logits are, else float32.
  double (*cross_entropy)(const CrossEntropyRows& rows, void* log_sums, void* losses);
  void (*cross_entropy_backward)(const CrossEntropyRows& rows, const void* log_sums,
                                 const LossGradient& gradient, void* dlogits, bool accumulate);
};

inline constexpr int kNumFloatingDTypes = 4;  // the first of DType

namespace baseline {
extern const LossKernels kLossKernels[kNumFloatingDTypes];  // by DType
}
namespace avx2 {
extern const LossKernels kLossKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const LossKernels kLossKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
