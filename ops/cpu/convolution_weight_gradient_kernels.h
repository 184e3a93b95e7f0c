// The loops of convolution_weight_gradient.h, for one dtype. dy is turned so that a pixel's outputs
// lie in vectors; a tap's sums then are vectors, to which each pixel adds dy times one element of
// x. Source planes (convolution_plan.h), turned gradients and sums are of the type that the dtype
// is calculated in.
#pragma once

#include <cstdint>

#include "ops/cpu/convolution_kernels.h"

namespace ops::cpu {

// gradient[output][pixels] -> out[pixels][lanes]; lanes beyond `outputs` are zero.
struct TurnedGradient {
  const void* gradient;
  int64_t output_stride;
  int64_t outputs, lanes;  // lanes: one or two vectors
  int64_t pixels;
  void* out;
};

// sums[channel][tap][lane] += sum over pixels of gradient[pixel][lane] source[channel][pixel +
// tap]. One output alone doesn't fill the lanes: its gradient is [rows][columns, filled up with
// zeros to whole vectors], and lane l sums over the columns that are l modulo a vector. Up to a
// vector beyond the source's last pixel is read.
struct WeightProducts {
  const void* gradient;  // [rows][columns][lanes]
  int64_t outputs;       // of the group
  int64_t lanes;
  int64_t rows, columns;
  const void* source;
  int64_t channels, channel_stride, pitch;
  const int64_t* offsets;
  int64_t taps;
  void* sums;
};

// out[i] (+)= the sum of sums[i]'s first lanes_of_sum lanes, for i in [0, count).
struct WeightSums {
  const void* sums;
  int64_t lanes, lanes_of_sum, count;
  bool accumulate;
  void* out;
};

struct ConvolutionWeightGradientKernels {
  int64_t vector;  // lanes of one
  void (*turn)(const TurnedGradient&);
  void (*add)(const WeightProducts&);
  // sums[0][i] becomes the sum over parts of sums[part][i], calculated in float64, for i in [0, n).
  void (*add_parts)(void* sums, int64_t parts, int64_t part_stride, int64_t n);
  void (*finish)(const WeightSums&);
};

namespace baseline {
extern const ConvolutionWeightGradientKernels kConvolutionWeightGradientKernels[kNumFloatingDTypes];
}
namespace avx2 {
extern const ConvolutionWeightGradientKernels kConvolutionWeightGradientKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const ConvolutionWeightGradientKernels kConvolutionWeightGradientKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
