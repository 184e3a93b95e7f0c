// How an elementwise operation walks over broadcast operands: the dimensions of its output, merged
// where all operands go through them alike, so that [64, 32, 8] + [8] is 2048 rows of 8.
#pragma once

#include <cstdint>

#include "ops/tensor/shape.h"

namespace ops::cpu {

struct BroadcastPlan {
  struct Dimension {
    int64_t extent;
    int64_t a_stride, b_stride;  // in elements; 0 where the operand is repeated
  };
  struct Offsets {
    int64_t a, b;
  };

  int rank = 0;
  Dimension dims[Shape::kMaxRank];  // outermost first; no extent is 1

  const Dimension& inner() const { return dims[rank - 1]; }
  // Where the operands of an inner row begin; rows are counted over all outer dimensions.
  Offsets OfRow(int64_t row) const;
};

// `out` is the broadcast shape of a and b, and has at least two elements.
BroadcastPlan PlanBroadcast(const Shape& a, const Shape& b, const Shape& out);

}  // namespace ops::cpu
