// Self-attention on the CPU, in tiles: neither direction holds a matrix of time x time scores.
// Floating point dtypes; shapes are the caller's to check.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct AttentionParameters {
  int64_t num_heads;
  bool causal;  // position t sees positions up to t
  double scale;
};

// From packed qkv[batch, time, 3 width]: out[batch, time, width] = softmax(scale q k^T) v for each
// head, and log_sums[batch, num_heads, time], the logarithm of the softmax's denominator. log_sums
// is float64 for float64 and float32 for others.
//
// A thread needs scratch memory of some tiles of 64 keys or 32 queries.
void AttentionForward(const Tensor& qkv, const Tensor& out, const Tensor& log_sums,
                      const AttentionParameters& parameters);

// The gradient of qkv, from `out` and `log_sums` as the forward pass left them. The scores are
// calculated again. Needs the same tiles, and sums for the keys and values of one head; where there
// are too few heads for many threads, of several parts of a head's queries.
void AttentionBackward(const Tensor& qkv, const Tensor& out, const Tensor& log_sums,
                       const Tensor& dout, const Tensor& dqkv, bool accumulate,
                       const AttentionParameters& parameters);

}  // namespace ops::cpu
