// The windows of a pooling, as its kernels want them.
#pragma once

#include <cstdint>

namespace ops::cpu {

// Along one axis: `out` windows of `kernel` elements, the first at -padding, each `stride` after
// the one before, cut at the edges of [0, in); none is empty. Adaptive windows ignore the rest:
// window i goes from floor(i in / out) to ceil((i + 1) in / out).
struct PoolingAxis {
  int64_t in, out;
  int64_t kernel = 0, stride = 0, padding = 0;
  bool is_adaptive = false;
};

struct PoolingShape {
  PoolingAxis height, width;
};

}  // namespace ops::cpu
