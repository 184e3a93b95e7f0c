#include "ops/autograd/reduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"
#include "ops/autograd/rearrange.h"

namespace ops {
namespace {

// What becomes of a shape when some of its dimensions are reduced.
class Reduction {
 public:
  Reduction(std::string_view name, const Tensor& x, std::span<const int> dims) : shape_(x.shape()) {
    if (dims.empty()) {
      throw std::invalid_argument(
          fmt::format("{}: got no dimensions of {}", name, shape_.ToString()));
    }
    for (const int dim : dims) {
      if (std::exchange(is_reduced_[RequireDim(name, shape_, dim)], true)) {
        throw std::invalid_argument(fmt::format("{}: dimensions [{}] of {} have one twice", name,
                                                fmt::join(dims, ", "), shape_.ToString()));
      }
    }
  }

  // With the reduced dimensions as 1, or without them.
  Shape Result(bool keep_dims) const {
    std::array<int64_t, Shape::kMaxRank> extents;
    int rank = 0;
    for (int i = 0; i < shape_.rank(); ++i) {
      if (!is_reduced_[i]) extents[rank++] = shape_.dim(i);
      if (is_reduced_[i] && keep_dims) extents[rank++] = 1;
    }
    return Shape(std::span<const int64_t>(extents.data(), rank));
  }

  // Elements that make one.
  int64_t count() const {
    int64_t count = 1;
    for (int i = 0; i < shape_.rank(); ++i) count *= is_reduced_[i] ? shape_.dim(i) : 1;
    return count;
  }

 private:
  const Shape& shape_;
  std::array<bool, Shape::kMaxRank> is_reduced_{};
};

// The gradient of a sum is the same for every element that went into it: factor dy, which has the
// input's dimensions, or 1 for them.
void AddExpanded(GradMeta& input, const Tensor& dy, double factor) {
  Tensor share = dy;
  if (factor != 1) {
    share = Tensor::Empty(dy.shape(), dy.options());
    kernels::Scale(factor, dy, share);
  }
  const auto [place, accumulate] = input.Target();
  if (accumulate) {
    kernels::Binary(kernels::BinaryOp::kAdd, place, share, place);
  } else {
    kernels::Expand(share, place);
  }
}

// factor times the sums that `as_one` has room for, in the shape `result` of as many elements.
Tensor ScaledSum(std::string_view name, const Tensor& x, const Shape& as_one, const Shape& result,
                 double factor) {
  const Tensor sums = Tensor::Empty(as_one, x.options());
  kernels::SumTo(x, sums, /*accumulate=*/false, factor);
  Tensor y = as_one == result ? sums : sums.View(result);
  if (!NeedsTape({x})) return y;
  return Record(name, std::move(y), {x}, [as_one, factor](const Tensor& dy, Node& node) {
    AddExpanded(*node.input(0), dy.View(as_one), factor);
  });
}

MaxResult MaxAlong(std::string_view name, const Tensor& x, int dim, bool keep_dim) {
  RequireDefined(name, {x});
  const int along = RequireDim(name, x.shape(), dim);
  if (x.dim(along) == 0) {
    throw std::invalid_argument(
        fmt::format("{}: dimension {} of {} is empty", name, dim, x.shape().ToString()));
  }
  const Shape shape = Reduction(name, x, {&along, 1}).Result(keep_dim);
  const Tensor indices = Tensor::Empty(shape, {DType::kInt64, x.device()});
  Tensor values = Tensor::Empty(shape, x.options());
  kernels::Max(x, along, values, indices);
  if (!NeedsTape({x})) return {values, indices};
  values = Record(name, std::move(values), {x}, [along, indices](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = node.input(0)->Target();
    if (!accumulate) place.FillZero();
    kernels::MaxBackward(dy, indices, along, place);
  });
  return {values, indices};
}

double Share(int64_t count) { return 1.0 / static_cast<double>(count); }

}  // namespace

Tensor Sum(const Tensor& x) {
  RequireDefined("Sum", {x});
  return ScaledSum("Sum", x, {}, {}, 1);
}

Tensor Mean(const Tensor& x) {
  RequireDefined("Mean", {x});
  return ScaledSum("Mean", x, {}, {}, Share(x.num_elements()));
}

Tensor Sum(const Tensor& x, std::initializer_list<int> dims, bool keep_dims) {
  RequireDefined("Sum", {x});
  const Reduction reduction("Sum", x, {dims.begin(), dims.size()});
  return ScaledSum("Sum", x, reduction.Result(true), reduction.Result(keep_dims), 1);
}

Tensor Mean(const Tensor& x, std::initializer_list<int> dims, bool keep_dims) {
  RequireDefined("Mean", {x});
  const Reduction reduction("Mean", x, {dims.begin(), dims.size()});
  return ScaledSum("Mean", x, reduction.Result(true), reduction.Result(keep_dims),
                   Share(reduction.count()));
}

MaxResult Max(const Tensor& x, int dim, bool keep_dim) { return MaxAlong("Max", x, dim, keep_dim); }

Tensor Max(const Tensor& x) {
  RequireDefined("Max", {x});
  return MaxAlong("Max", Reshape(x, {x.num_elements()}), 0, /*keep_dim=*/false).values;
}

Tensor ArgMax(const Tensor& x, int dim) {
  RequireDefined("ArgMax", {x});
  return MaxAlong("ArgMax", x.Detach(), dim, /*keep_dim=*/false).indices;
}

}  // namespace ops
