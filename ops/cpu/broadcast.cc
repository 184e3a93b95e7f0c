#include "ops/cpu/broadcast.h"

#include <algorithm>

namespace ops::cpu {
namespace {

// Strides of one operand, handed out from the innermost dimension outwards.
class Strides {
 public:
  explicit Strides(const Shape& shape) : shape_(shape) {}

  int64_t Next() {
    const int64_t extent = ++taken_ <= shape_.rank() ? shape_.dim(-taken_) : 1;
    const int64_t stride = extent == 1 ? 0 : stride_;
    stride_ *= extent;
    return stride;
  }

 private:
  const Shape& shape_;
  int64_t stride_ = 1;
  int taken_ = 0;
};

// Whether `outer` goes on where `inner` ends, for both operands.
bool CanMerge(const BroadcastPlan::Dimension& outer, const BroadcastPlan::Dimension& inner) {
  return outer.a_stride == inner.a_stride * inner.extent &&
         outer.b_stride == inner.b_stride * inner.extent;
}

}  // namespace

BroadcastPlan PlanBroadcast(const Shape& a, const Shape& b, const Shape& out) {
  BroadcastPlan plan;
  Strides a_strides(a), b_strides(b);
  for (int i = 1; i <= out.rank(); ++i) {
    const BroadcastPlan::Dimension dim = {out.dim(-i), a_strides.Next(), b_strides.Next()};
    if (dim.extent == 1) continue;
    if (plan.rank > 0 && CanMerge(dim, plan.inner())) {
      plan.dims[plan.rank - 1].extent *= dim.extent;
    } else {
      plan.dims[plan.rank++] = dim;
    }
  }
  std::reverse(plan.dims, plan.dims + plan.rank);
  return plan;
}

BroadcastPlan::Offsets BroadcastPlan::OfRow(int64_t row) const {
  Offsets offsets{0, 0};
  for (int i = rank - 2; i >= 0; --i) {
    const int64_t index = row % dims[i].extent;
    row /= dims[i].extent;
    offsets.a += index * dims[i].a_stride;
    offsets.b += index * dims[i].b_stride;
  }
  return offsets;
}

}  // namespace ops::cpu
