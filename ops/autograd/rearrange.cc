#include "ops/autograd/rearrange.h"

#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/node.h"

namespace ops {

Tensor Reshape(const Tensor& x, const Shape& shape) {
  RequireDefined("Reshape", {x});
  Tensor y = x.View(shape);
  if (!NeedsTape({x})) return y;
  return Record("Reshape", std::move(y), {x}, [](const Tensor& dy, Node& node) {
    node.input(0)->Add(dy.View(node.input(0)->shape()));
  });
}

}  // namespace ops
