#include "ops/autograd/matmul.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

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

Shape ProductShape(const Tensor& a, const Tensor& b, const MatMulFlags& flags) {
  RequireSameType("MatMul", a, b);
  if (a.shape().rank() == 2 && b.shape().rank() == 2) {
    const auto [ta, tb] = flags;
    if (a.dim(ta ? 0 : 1) == b.dim(tb ? 1 : 0)) return {a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)};
  }
  throw std::invalid_argument(
      fmt::format("MatMul: {}{} and {}{} don't multiply: expected [m, k] and [k, n]", a.Describe(),
                  flags.transpose_a ? " transposed" : "", b.Describe(),
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
  const Tensor y_rows = Rows(y);
  if (bias.defined()) kernels::BroadcastRow(bias, y_rows);
  kernels::MatMul(Rows(x), weight, y_rows, {.transpose_b = true, .accumulate = bias.defined()});
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
