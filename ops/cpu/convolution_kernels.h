// The loops of correlations of unit stride (convolution_plan.h), for one dtype. Sources, weights
// and sums are of the type that the dtype is calculated in: float for all but float64.
#pragma once

#include <cstdint>

namespace ops::cpu {

// Copies a strided rectangle into a plane [rows, columns] that is zero around it.
struct Padded {
  const void* from;  // what plane element (first_row, first_column) gets
  int64_t row_stride, column_stride;
  int64_t first_row, end_row, first_column, end_column;
  int64_t rows, columns;
  void* out;
};

// weight[output, channel, kernel index] -> out[channels][taps][outputs].
struct PackedWeights {
  const void* weight;
  int64_t output_stride, channel_stride;
  int64_t outputs, channels, taps;
  const int64_t* kernel_indices;
  void* out;
};

// sums[output][p] = sum over channels and taps of weights[channel][tap][output]
// source[channel][p + offsets[tap]] for p in [0, positions). Fewer than kOverrun elements beyond
// that are read and written too.
struct CorrelationTile {
  const void* source;
  int64_t channels, channel_stride;
  const int64_t* offsets;
  int64_t taps;
  const void* weights;
  int64_t outputs;  // 1 .. max_outputs
  int64_t positions;
  void* sums;
  int64_t sums_stride;
};
inline constexpr int64_t kOverrun = 16;

// out[row, column] (+)= sums[phase of the column][row, column / phases] + bias, where the phase of
// a column is the column modulo `phases`.
struct Placed {
  const void* sums;
  int64_t pitch;
  int64_t phases, phase_stride;
  int64_t rows, columns;
  const void* bias;  // one element of the dtype, or null
  bool accumulate;
  void* out;
  int64_t row_stride;
};

struct ConvolutionKernels {
  int64_t max_outputs;  // of a tile
  void (*pad)(const Padded&);
  void (*pack)(const PackedWeights&);
  void (*correlate)(const CorrelationTile&);
  void (*place)(const Placed&);
};

inline constexpr int kNumFloatingDTypes = 4;  // float32, float64, bfloat16, float16: by DType

namespace baseline {
extern const ConvolutionKernels kConvolutionKernels[kNumFloatingDTypes];
}
namespace avx2 {
extern const ConvolutionKernels kConvolutionKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const ConvolutionKernels kConvolutionKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
