#include "ops/autograd/softmax.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

// `dim` counted from the first. As in PyTorch, a scalar has one dimension.
int DimensionOf(const char* function, const Tensor& x, int dim) {
  RequireDefined(function, {x});
  const int rank = std::max(1, x.shape().rank());
  if (dim < -rank || dim >= rank) {
    throw std::invalid_argument(
        fmt::format("{}: {} has no dimension {}", function, x.Describe(), dim));
  }
  if (!IsFloating(x.dtype())) {
    throw std::invalid_argument(
        fmt::format("{}: expected a floating point input, got {}", function, x.Describe()));
  }
  return dim < 0 ? dim + rank : dim;
}

Tensor SoftmaxAlong(const char* function, kernels::SoftmaxKind kind, const Tensor& x, int dim) {
  const int from_first = DimensionOf(function, x, dim);
  Tensor y = Tensor::Empty(x.shape(), x.options());
  kernels::SoftmaxForward(kind, x, from_first, y);
  if (!NeedsTape({x})) return y;
  const Tensor saved = Saved(y);
  return Record(function, std::move(y), {x}, [=](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = node.input(0)->Target();
    kernels::SoftmaxBackward(kind, saved, dy, from_first, place, accumulate);
  });
}

}  // namespace

Tensor Softmax(const Tensor& x, int dim) {
  return SoftmaxAlong("Softmax", kernels::SoftmaxKind::kPlain, x, dim);
}

Tensor LogSoftmax(const Tensor& x, int dim) {
  return SoftmaxAlong("LogSoftmax", kernels::SoftmaxKind::kLog, x, dim);
}

}  // namespace ops
