#include "ops/autograd/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

// Puts the product op(a) op(b) into a gradient.
void AddProduct(GradMeta& input, const Tensor& a, const Tensor& b, const MatMulFlags& flags) {
  const auto [place, accumulate] = input.Target();
  kernels::MatMul(a, b, place,
                  {.transpose_a = flags.transpose_a,
                   .transpose_b = flags.transpose_b,
                   .accumulate = accumulate});
}

// x [..., n] as a matrix [rows, n].
Tensor Rows(const Tensor& x) {
  if (x.shape().rank() == 2) return x;
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.shape().rank(); ++i) rows *= x.dim(i);
  return x.View({rows, x.dim(-1)});
}

Tensor RowsSavedFor(const Tensor& input, const Tensor& x) {
  const Tensor saved = SavedFor(input, x);
  return saved.defined() ? Rows(saved) : saved;
}

Shape WithLast(const Shape& shape, int64_t extent) {
  std::array<int64_t, Shape::kMaxRank> dims;
  std::ranges::copy(shape.dims(), dims.begin());
  dims[shape.rank() - 1] = extent;
  return Shape(std::span<const int64_t>(dims.data(), shape.rank()));
}

// The leading dimensions of a and b, broadcast, and [m, n]. False where they don't multiply.
bool ProductDims(const Shape& a, const Shape& b, const MatMulFlags& flags,
                 absl::InlinedVector<int64_t, Shape::kMaxRank>& dims) {
  if (a.rank() < 2 || b.rank() < 2) return false;
  const int rank = std::max(a.rank(), b.rank());
  for (int i = rank; i > 2; --i) {
    const int64_t in_a = i <= a.rank() ? a.dim(-i) : 1, in_b = i <= b.rank() ? b.dim(-i) : 1;
    if (in_a != in_b && in_a != 1 && in_b != 1) return false;
    dims.push_back(in_a == 1 ? in_b : in_a);
  }
  const auto [ta, tb] = flags;
  dims.push_back(a.dim(ta ? -1 : -2));
  dims.push_back(b.dim(tb ? -2 : -1));
  return a.dim(ta ? -2 : -1) == b.dim(tb ? -1 : -2);
}

Shape ProductShape(const Tensor& a, const Tensor& b, const MatMulFlags& flags) {
  RequireSameType("MatMul", a, b);
  absl::InlinedVector<int64_t, Shape::kMaxRank> dims;
  if (ProductDims(a.shape(), b.shape(), flags, dims)) return Shape(dims);
  throw std::invalid_argument(
      fmt::format("MatMul: {}{} and {}{} don't multiply: expected [..., m, k] and [..., k, n]",
                  a.Describe(), flags.transpose_a ? " transposed" : "", b.Describe(),
                  flags.transpose_b ? " transposed" : ""));
}

void CheckLinear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  RequireSameType("Linear", x, weight);
  if (weight.shape().rank() != 2 || x.shape().rank() == 0 || x.dim(-1) != weight.dim(1)) {
    throw std::invalid_argument(
        fmt::format("Linear: input {} doesn't fit weight {}: expected [..., in] and [out, in]",
                    x.shape().ToString(), weight.shape().ToString()));
  }
  if (!bias.defined()) return;
  RequireSameType("Linear", bias, weight);
  if (bias.shape().rank() != 1 || bias.dim(0) != weight.dim(0)) {
    throw std::invalid_argument(fmt::format("Linear: bias {} doesn't fit weight {}: expected [{}]",
                                            bias.shape().ToString(), weight.shape().ToString(),
                                            weight.dim(0)));
  }
}

}  // namespace

// With A = op(a), B = op(b): dA = dy B^T and dB = A^T dy; where a or b came transposed, the
// transpose of the same.
Tensor MatMul(const Tensor& a, const Tensor& b, const MatMulFlags& flags) {
  Tensor y = Tensor::Empty(ProductShape(a, b, flags), a.options());
  kernels::MatMul(a, b, y, {.transpose_a = flags.transpose_a, .transpose_b = flags.transpose_b});
  if (!NeedsTape({a, b})) return y;
  return Record("MatMul", std::move(y), {a, b},
                [a = SavedFor(b, a), b = SavedFor(a, b), flags](const Tensor& dy, Node& node) {
                  const auto [ta, tb] = flags;
                  if (GradMeta* da = node.input(0)) {
                    if (ta) {
                      AddProduct(*da, b, dy, {.transpose_a = tb, .transpose_b = true});
                    } else {
                      AddProduct(*da, dy, b, {.transpose_b = !tb});
                    }
                  }
                  if (GradMeta* db = node.input(1)) {
                    if (tb) {
                      AddProduct(*db, dy, a, {.transpose_a = true, .transpose_b = ta});
                    } else {
                      AddProduct(*db, a, dy, {.transpose_a = !ta});
                    }
                  }
                });
}

Tensor Linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  CheckLinear(x, weight, bias);
  Tensor y = Tensor::Empty(WithLast(x.shape(), weight.dim(0)), x.options());
  kernels::MatMulPlusBias(Rows(x), weight, bias, Rows(y));
  if (!NeedsTape({x, weight, bias})) return y;
  return Record(
      "Linear", std::move(y), {x, weight, bias},
      [x = RowsSavedFor(weight, x), weight = SavedFor(x, weight)](const Tensor& dy, Node& node) {
        const Tensor dy_rows = Rows(dy);
        if (GradMeta* dx = node.input(0)) {
          const auto [place, accumulate] = dx->Target();
          kernels::MatMul(dy_rows, weight, Rows(place), {.accumulate = accumulate});
        }
        if (GradMeta* dw = node.input(1)) {
          AddProduct(*dw, dy_rows, x, {.transpose_a = true});
        }
        if (GradMeta* db = node.input(2)) {
          const auto [place, accumulate] = db->Target();
          kernels::SumTo(dy_rows, place, accumulate);
        }
      });
}

}  // namespace ops
