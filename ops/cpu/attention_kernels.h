// The loops of attention.h for one dtype: attention of one head over one sequence.
//
// Queries are taken in panels, a panel's keys in tiles. The matrices of scores lie transposed, a
// row for each key and a column for each query of the panel: maxima, sums and scaling are then
// plain loops over vectors of queries, and keys and values are read where they are, as the factors
// that a product reads number by number.
#pragma once

#include <cstdint>

namespace ops::cpu {

struct AttentionHead {
  // Rows [time][head_width], `stride` elements apart.
  const void *query, *key, *value;
  int64_t stride;
  int64_t time, head_width;
  bool causal;
  double scale;
};

// The gradients of query, key and value, laid out as those are.
struct AttentionHeadGradient {
  void *query, *key, *value;
  bool accumulate;
};

inline constexpr int64_t kPanelBytes = 128;  // of a row of scores: 32 queries in float32
inline constexpr int64_t kTileKeys = 64;

// Queries of a panel, and columns that a head's width is filled up to, where numbers of `size`
// bytes are calculated with.
constexpr int64_t PanelQueries(int64_t size) { return kPanelBytes / size; }
constexpr int64_t PaddedWidth(int64_t head_width, int64_t size) {
  const int64_t multiple = 64 / size;
  return (head_width + multiple - 1) / multiple * multiple;
}

// Numbers of scratch memory for a call of `forward` or `backward`.
constexpr int64_t AttentionScratch(int64_t head_width, int64_t size) {
  const int64_t padded = PaddedWidth(head_width, size);
  return 5 * PanelQueries(size) * padded + 2 * kTileKeys * (PanelQueries(size) + padded);
}

// float64 is calculated in float64, all others in float32: that is the type of log_sums, of the
// sums of gradients and of `scratch`.
struct AttentionKernels {
  // Rows [begin, end) of the output, `out_stride` apart; `begin` is a multiple of a panel.
  // log_sums[i] = log(sum_j exp(score_ij)).
  void (*forward)(const AttentionHead& head, int64_t begin, int64_t end, void* out,
                  int64_t out_stride, void* log_sums, void* scratch);
  // From the output and its gradient, rows `out_stride` apart: the gradient of queries
  // [begin, end), and what these queries contribute to the gradients of keys and values, added to
  // key_sums and value_sums[time][PaddedWidth].
  void (*backward)(const AttentionHead& head, int64_t begin, int64_t end, const void* out,
                   const void* dout, int64_t out_stride, const void* log_sums,
                   const AttentionHeadGradient& gradient, void* key_sums, void* value_sums,
                   void* scratch);
  // Puts such sums into the gradients of keys and values [begin, end).
  void (*store_sums)(const AttentionHead& head, int64_t begin, int64_t end, const void* key_sums,
                     const void* value_sums, const AttentionHeadGradient& gradient);
};

inline constexpr int kNumAttentionDTypes = 4;  // the first of DType

namespace baseline {
extern const AttentionKernels kAttentionKernels[kNumAttentionDTypes];  // by DType
}
namespace avx2 {
extern const AttentionKernels kAttentionKernels[kNumAttentionDTypes];
}
namespace avx512 {
extern const AttentionKernels kAttentionKernels[kNumAttentionDTypes];
}

}  // namespace ops::cpu
