#include "ops/autograd/softmax.h"

#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

// `dim` counted from the first. As in PyTorch, a scalar has one dimension.
int DimensionOf(const char* function, const Tensor& x, int dim) {
  RequireFloating(function, x);
  return RequireDim(function, x.shape().rank() == 0 ? Shape{1} : x.shape(), dim);
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
