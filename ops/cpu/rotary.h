// Rotary embedding of positions on the CPU. Floating point dtypes; shapes are the caller's to
// check.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct RotaryParameters {
  int64_t num_heads;
  double base;
  int64_t first_position;
};

// y = or += packed qkv[batch, time, 3 width] with the queries and keys of position p rotated:
// elements i and i + d / 2 of a head of d, as a pair, by p / base^(2 i / d), or by the negative
// angle where `inverse`, which is the gradient's way. y isn't qkv itself.
void RotaryEmbedding(const Tensor& qkv, const Tensor& y, const RotaryParameters& parameters,
                     bool inverse, bool accumulate);

}  // namespace ops::cpu
