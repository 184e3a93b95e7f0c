// The loops of normalization.h for one dtype: any alignment; outputs may be inputs themselves.
// Sums and statistics are float64, the rest is calculated in the dtype's type (kernel_element.h).
#pragma once

#include <cstdint>

namespace ops::cpu {

// The elements that are normalised together: `count` runs of `length` elements, each `stride`
// elements after the one before. A channel of an image batch, or with count 1 a row.
struct Runs {
  int64_t count;
  int64_t stride;
  int64_t length;
};

struct Moments {
  double mean;
  double variance;  // the biased one
};

// y = (x - mean) scale + bias, and where `relu`, what of it is positive.
struct ChannelAffine {
  double mean;
  double scale;
  double bias;
  bool relu = false;
};

// Sums over a channel of dy and of dy (x - mean), with 0 for dy where `relu` cut y off.
struct ChannelSums {
  double dy;
  double dy_x;
};

// dx = dy_factor dy + x_factor (x - mean) + constant, with dy as above. Where x_factor is 0, dx
// doesn't depend on x: not on its NaN either.
struct ChannelGradient {
  double dy_factor;
  double x_factor;
  double constant;
};

// Rows of `width` elements. `centered`: LayerNorm; else RmsNorm, whose means are 0.
struct RowNorm {
  const void *x, *weight, *bias;
  int64_t rows, width;
  bool centered;
  double epsilon;
  void* y;
  double *means, *inverse_deviations;  // of each row: written
};

struct RowNormBackward {
  const void *x, *weight, *dy;
  int64_t rows, width;
  bool centered;
  const double *means, *inverse_deviations;
  void* dx;  // null: not wanted
  bool accumulate;
  double *weight_sums, *bias_sums;  // of each column: added to; both null: not wanted
};

struct NormalizationKernels {
  Moments (*moments)(const void* x, const Runs& runs);
  void (*normalize)(const void* x, const Runs& runs, const ChannelAffine& affine, void* y);
  ChannelSums (*sums)(const void* x, const void* dy, const Runs& runs, const ChannelAffine& affine);
  void (*backward)(const void* x, const void* dy, const Runs& runs, const ChannelAffine& affine,
                   const ChannelGradient& gradient, void* dx, bool accumulate);
  void (*normalize_rows)(const RowNorm& args);
  void (*normalize_rows_backward)(const RowNormBackward& args);
};

inline constexpr int kNumFloatingDTypes = 4;

namespace baseline {
extern const NormalizationKernels kNormalizationKernels[kNumFloatingDTypes];  // by DType
}
namespace avx2 {
extern const NormalizationKernels kNormalizationKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const NormalizationKernels kNormalizationKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
