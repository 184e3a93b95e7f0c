// Scaled dot-product self-attention, and the rotary embedding of positions.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops {

struct AttentionOptions {
  int64_t num_heads = 1;
  bool causal = true;  // position t sees positions up to t; without, all
  double scale = 0;    // of the scores; 0: 1 / sqrt(head width)
};

// qkv [batch, time, 3 width]: the queries, keys and values of a position, each `width` wide; head h
// has elements [h d, (h + 1) d) of each, with d = width / num_heads. -> [batch, time, width]:
// softmax(scale q k^T) v for each head.
//
// Calculated in tiles with running maxima and sums (Milakov and Gimelshein 2018; Dao et al. 2022):
// neither forward nor backward holds a time x time matrix; the tape keeps one number per row and
// head.
Tensor Attention(const Tensor& qkv, const AttentionOptions& options);

struct RotaryOptions {
  int64_t num_heads = 1;
  double base = 10000;
  int64_t first_position = 0;  // of the sequence's first element
};
// Rotates the queries and keys of packed qkv [batch, time, 3 width] by their positions: elements i
// and i + d / 2 of a head, as a pair, by position / base^(2 i / d). Values stay. Su et al. 2021, in
// the half-split form that Llama's weights have.
Tensor RotaryEmbedding(const Tensor& qkv, const RotaryOptions& options);

}  // namespace ops
