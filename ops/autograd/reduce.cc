#include "ops/autograd/reduce.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

// The gradient of a sum is the same for every element that went into it.
void AddBroadcast(GradMeta& input, const Tensor& gradient) {
  const auto [place, accumulate] = input.Target();
  if (!accumulate) place.FillZero();
  kernels::Binary(kernels::BinaryOp::kAdd, place, gradient, place);
}

// The shape without dimension `dim` (0 .. rank-1), or with it as an extent of 1.
Shape Without(const Shape& shape, int dim, bool keep_as_one) {
  std::array<int64_t, Shape::kMaxRank> dims;
  int rank = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != dim) dims[rank++] = shape.dim(i);
    if (i == dim && keep_as_one) dims[rank++] = 1;
  }
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

}  // namespace

Tensor Sum(const Tensor& x) {
  RequireDefined("Sum", {x});
  Tensor y = Tensor::Empty({}, x.options());
  kernels::SumTo(x, y);
  if (!NeedsTape({x})) return y;
  return Record("Sum", std::move(y), {x},
                [](const Tensor& dy, Node& node) { AddBroadcast(*node.input(0), dy); });
}

Tensor Mean(const Tensor& x) {
  RequireDefined("Mean", {x});
  const double factor = 1.0 / static_cast<double>(x.num_elements());
  Tensor y = Tensor::Empty({}, x.options());
  kernels::SumTo(x, y, /*accumulate=*/false, factor);
  if (!NeedsTape({x})) return y;
  return Record("Mean", std::move(y), {x}, [factor](const Tensor& dy, Node& node) {
    const Tensor share = Tensor::Empty({}, dy.options());
    kernels::Scale(factor, dy, share);
    AddBroadcast(*node.input(0), share);
  });
}

Tensor Sum(const Tensor& x, std::initializer_list<int> dims, bool) {
  int dim = *dims.begin();
  RequireDefined("Sum", {x});
  const int rank = x.shape().rank();
  if (dim < -rank || dim >= rank) {
    throw std::invalid_argument(
        fmt::format("Sum: {} has no dimension {}", x.shape().ToString(), dim));
  }
  if (dim < 0) dim += rank;
  const Shape as_one = Without(x.shape(), dim, true);
  const Tensor sums = Tensor::Empty(as_one, x.options());
  kernels::SumTo(x, sums);
  Tensor y = sums.View(Without(x.shape(), dim, false));
  if (!NeedsTape({x})) return y;
  return Record("Sum", std::move(y), {x}, [as_one](const Tensor& dy, Node& node) {
    AddBroadcast(*node.input(0), dy.View(as_one));
  });
}

}  // namespace ops
