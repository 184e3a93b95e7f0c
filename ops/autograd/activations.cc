#include "ops/autograd/activations.h"

#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {

Tensor Relu(const Tensor& x) {
  RequireDefined("Relu", {x});
  Tensor y = Tensor::Empty(x.shape(), x.options());
  kernels::Relu(x, y);
  if (!NeedsTape({x})) return y;
  Tensor kept = y.Detach();
  return Record("Relu", std::move(y), {x}, [y = std::move(kept)](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = node.input(0)->TargetOver(dy);
    kernels::ReluBackward(y, dy, place, accumulate);
  });
}

}  // namespace ops
