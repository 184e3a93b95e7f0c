#include "ops/autograd/rearrange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using kernels::BoxBegin;
using Dims = std::array<int, Shape::kMaxRank>;

// `shape` with another extent of one dimension.
Shape WithExtent(const Shape& shape, int dim, int64_t extent) {
  std::array<int64_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape.dims(), extents.begin());
  extents[dim] = extent;
  return Shape(std::span<const int64_t>(extents.data(), shape.rank()));
}

// Adds dy to the box of the input's gradient that it is the gradient of. Whoever comes first fills
// the rest with zeros; the others, as the pieces of a split, then touch nothing but their part.
void AddToBox(GradMeta& input, const BoxBegin& begin, const Tensor& dy, const BoxBegin& dy_begin,
              const Shape& extents) {
  const auto [place, accumulate] = input.Target();
  if (!accumulate) kernels::FillOutside(place, begin, extents, 0);
  kernels::CopyBox(dy, dy_begin, place, begin, extents, accumulate);
}

// Dimension i of the result is dimension dims[i] of x, for the first x.shape().rank() of `dims`.
Tensor Permuted(std::string_view name, const Tensor& x, const Dims& dims) {
  const int rank = x.shape().rank();
  std::array<int64_t, Shape::kMaxRank> extents;
  for (int i = 0; i < rank; ++i) extents[i] = x.dim(dims[i]);
  Tensor y = Tensor::Empty(Shape(std::span<const int64_t>(extents.data(), rank)), x.options());
  kernels::Permute(x, std::span(dims.data(), rank), y);
  if (!NeedsTape({x})) return y;
  Dims inverse{};
  for (int i = 0; i < rank; ++i) inverse[dims[i]] = i;
  return Record(name, std::move(y), {x}, [inverse, rank](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = node.input(0)->Target();
    kernels::Permute(dy, std::span(inverse.data(), rank), place, accumulate);
  });
}

// `dim` from 0 on.
Tensor Sliced(std::string_view name, const Tensor& x, int dim, int64_t begin, int64_t end) {
  BoxBegin box{};
  box[dim] = begin;
  Tensor y = Tensor::Empty(WithExtent(x.shape(), dim, end - begin), x.options());
  kernels::CopyBox(x, box, y, {}, y.shape());
  if (!NeedsTape({x})) return y;
  return Record(name, std::move(y), {x}, [dim, begin](const Tensor& dy, Node& node) {
    BoxBegin box{};
    box[dim] = begin;
    AddToBox(*node.input(0), box, dy, {}, dy.shape());
  });
}

// The extent of all along `dim`. Throws unless the others are equal.
int64_t ExtentOfAll(const std::vector<Tensor>& tensors, int dim) {
  int64_t extent = 0;
  for (const Tensor& tensor : tensors) {
    RequireSameType("Concatenate", tensors[0], tensor);
    const Shape& shape = tensor.shape();
    if (shape.rank() != tensors[0].shape().rank() ||
        WithExtent(shape, dim, 0) != WithExtent(tensors[0].shape(), dim, 0)) {
      throw std::invalid_argument(
          fmt::format("Concatenate: {} and {} differ in more than dimension {}",
                      tensors[0].shape().ToString(), shape.ToString(), dim));
    }
    extent += shape.dim(dim);
  }
  return extent;
}

}  // namespace

Tensor Reshape(const Tensor& x, const Shape& shape) {
  RequireDefined("Reshape", {x});
  Tensor y = x.View(shape);
  if (!NeedsTape({x})) return y;
  return Record("Reshape", std::move(y), {x}, [](const Tensor& dy, Node& node) {
    node.input(0)->Add(dy.View(node.input(0)->shape()));
  });
}

Tensor Flatten(const Tensor& x, int first_dim) {
  RequireDefined("Flatten", {x});
  const int first = RequireDim("Flatten", x.shape(), first_dim);
  const auto kept = x.shape().dims().first(first), rest = x.shape().dims().subspan(first);
  std::array<int64_t, Shape::kMaxRank> extents;
  std::ranges::copy(kept, extents.begin());
  extents[first] = std::accumulate(rest.begin(), rest.end(), int64_t{1}, std::multiplies<>());
  return Reshape(x, Shape(std::span<const int64_t>(extents.data(), first + 1)));
}

Tensor Transpose(const Tensor& x, int dim0, int dim1) {
  RequireDefined("Transpose", {x});
  Dims dims;
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[RequireDim("Transpose", x.shape(), dim0)],
            dims[RequireDim("Transpose", x.shape(), dim1)]);
  return Permuted("Transpose", x, dims);
}

Tensor Permute(const Tensor& x, const std::vector<int>& dims) {
  RequireDefined("Permute", {x});
  Dims from{};
  std::array<bool, Shape::kMaxRank> taken{};
  bool is_permutation = static_cast<int>(dims.size()) == x.shape().rank();
  for (size_t i = 0; is_permutation && i < dims.size(); ++i) {
    from[i] = RequireDim("Permute", x.shape(), dims[i]);
    is_permutation = !std::exchange(taken[from[i]], true);
  }
  if (is_permutation) return Permuted("Permute", x, from);
  throw std::invalid_argument(
      fmt::format("Permute: [{}] doesn't have each of the {} dimensions of {} once",
                  fmt::join(dims, ", "), x.shape().rank(), x.shape().ToString()));
}

Tensor Concatenate(const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) throw std::invalid_argument("Concatenate: got no tensors");
  using Refs = absl::InlinedVector<InputList::Input, 8>;
  const Refs refs(tensors.begin(), tensors.end());
  const InputList inputs{std::span<const InputList::Input>(refs)};
  RequireDefined("Concatenate", inputs);
  const int along = RequireDim("Concatenate", tensors[0].shape(), dim);
  const int64_t extent = ExtentOfAll(tensors, along);
  Tensor y = Tensor::Empty(WithExtent(tensors[0].shape(), along, extent), tensors[0].options());
  absl::InlinedVector<int64_t, 8> extents;
  BoxBegin begin{};
  for (const Tensor& tensor : tensors) {
    kernels::CopyBox(tensor, {}, y, begin, tensor.shape());
    extents.push_back(tensor.dim(along));
    begin[along] += extents.back();
  }
  if (!NeedsTape(inputs)) return y;
  return Record("Concatenate", std::move(y), inputs,
                [along, extents = std::move(extents)](const Tensor& dy, Node& node) {
                  BoxBegin begin{};
                  for (size_t i = 0; i < extents.size(); ++i) {
                    if (GradMeta* dx = node.input(static_cast<int>(i))) {
                      AddToBox(*dx, {}, dy, begin, dx->shape());
                    }
                    begin[along] += extents[i];
                  }
                });
}

Tensor Slice(const Tensor& x, int dim, int64_t begin, int64_t end) {
  RequireDefined("Slice", {x});
  const int along = RequireDim("Slice", x.shape(), dim);
  if (begin >= 0 && begin <= end && end <= x.dim(along)) {
    return Sliced("Slice", x, along, begin, end);
  }
  throw std::invalid_argument(fmt::format("Slice: {} has no indices [{}, {}) in dimension {}",
                                          x.shape().ToString(), begin, end, dim));
}

std::vector<Tensor> Split(const Tensor& x, std::span<const int64_t> extents, int dim) {
  RequireDefined("Split", {x});
  const int along = RequireDim("Split", x.shape(), dim);
  const bool is_negative = std::ranges::any_of(extents, [](int64_t extent) { return extent < 0; });
  if (is_negative || std::accumulate(extents.begin(), extents.end(), int64_t{0}) != x.dim(along)) {
    throw std::invalid_argument(
        fmt::format("Split: pieces of [{}] don't make up dimension {} of {}",
                    fmt::join(extents, ", "), dim, x.shape().ToString()));
  }
  std::vector<Tensor> pieces;
  pieces.reserve(extents.size());
  int64_t begin = 0;
  for (const int64_t extent : extents) {
    pieces.push_back(Sliced("Split", x, along, begin, begin + extent));
    begin += extent;
  }
  return pieces;
}

std::vector<Tensor> Split(const Tensor& x, int64_t extent, int dim) {
  RequireDefined("Split", {x});
  const int64_t all = x.dim(RequireDim("Split", x.shape(), dim));
  if (extent <= 0) {
    throw std::invalid_argument(
        fmt::format("Split: pieces of {}, expected at least 1 of {}", extent, all));
  }
  absl::InlinedVector<int64_t, 8> extents(all / extent, extent);
  if (all % extent != 0 || all == 0) extents.push_back(all % extent);
  return Split(x, std::span<const int64_t>(extents), dim);
}

Tensor Pad(const Tensor& x, const std::vector<Padding>& padding, double value) {
  RequireDefined("Pad", {x});
  const int rank = x.shape().rank();
  if (static_cast<int>(padding.size()) != rank) {
    throw std::invalid_argument(fmt::format("Pad: {} paddings for {}, expected one a dimension",
                                            padding.size(), x.shape().ToString()));
  }
  // The box that x and y have in common, where it begins in each, and what y's extents are.
  std::array<int64_t, Shape::kMaxRank> common, padded;
  BoxBegin x_begin{}, y_begin{};
  for (int i = 0; i < rank; ++i) {
    const auto [before, after] = padding[i];
    common[i] = x.dim(i) + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    padded[i] = x.dim(i) + before + after;
    x_begin[i] = std::max<int64_t>(-before, 0);
    y_begin[i] = std::max<int64_t>(before, 0);
    if (common[i] < 0) {
      throw std::invalid_argument(
          fmt::format("Pad: [{}, {}] cuts more off dimension {} of {} than it has", before, after,
                      i, x.shape().ToString()));
    }
  }
  const Shape extents(std::span<const int64_t>(common.data(), rank));
  Tensor y = Tensor::Empty(Shape(std::span<const int64_t>(padded.data(), rank)), x.options());
  kernels::FillOutside(y, y_begin, extents, value);
  kernels::CopyBox(x, x_begin, y, y_begin, extents);
  if (!NeedsTape({x})) return y;
  return Record("Pad", std::move(y), {x},
                [x_begin, y_begin, extents](const Tensor& dy, Node& node) {
                  AddToBox(*node.input(0), x_begin, dy, y_begin, extents);
                });
}

}  // namespace ops
