#include "ops/autograd/elementwise.h"

#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using kernels::BinaryOp;

Tensor Compute(BinaryOp op, const Tensor& a, const Tensor& b, const Shape& shape) {
  Tensor out = Tensor::Empty(shape, a.options());
  kernels::Binary(op, a, b, out);
  return out;
}

Tensor ComputeBroadcast(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  RequireSameType(name, a, b);
  return Compute(op, a, b,
                 a.shape() == b.shape() ? a.shape() : BroadcastShapes(name, a.shape(), b.shape()));
}

// Adds a gradient that has the output's shape to an input that was broadcast to it.
void AddSummed(GradMeta& input, const Tensor& gradient) {
  if (input.shape() == gradient.shape()) {
    input.Add(gradient);
    return;
  }
  const auto [place, accumulate] = input.Target();
  kernels::SumTo(gradient, place, accumulate);
}

void AddScaled(GradMeta& input, double factor, const Tensor& gradient) {
  const auto [place, accumulate] = input.Target();
  kernels::Scale(factor, gradient, place, accumulate);
}

Tensor Negative(const Tensor& x) {
  Tensor negative = Tensor::Empty(x.shape(), x.options());
  kernels::Scale(-1, x, negative);
  return negative;
}

}  // namespace

Tensor Add(const Tensor& a, const Tensor& b) {
  Tensor y = ComputeBroadcast("Add", BinaryOp::kAdd, a, b);
  if (!NeedsTape({a, b})) return y;
  return Record("Add", std::move(y), {a, b}, [](const Tensor& dy, Node& node) {
    if (GradMeta* da = node.input(0)) AddSummed(*da, dy);
    if (GradMeta* db = node.input(1)) AddSummed(*db, dy);
  });
}

Tensor Subtract(const Tensor& a, const Tensor& b) {
  Tensor y = ComputeBroadcast("Subtract", BinaryOp::kSubtract, a, b);
  if (!NeedsTape({a, b})) return y;
  return Record("Subtract", std::move(y), {a, b}, [](const Tensor& dy, Node& node) {
    if (GradMeta* da = node.input(0)) AddSummed(*da, dy);
    if (GradMeta* db = node.input(1)) AddSummed(*db, Negative(dy));
  });
}

Tensor Multiply(const Tensor& a, const Tensor& b) {
  Tensor y = ComputeBroadcast("Multiply", BinaryOp::kMultiply, a, b);
  if (!NeedsTape({a, b})) return y;
  return Record("Multiply", std::move(y), {a, b},
                [a = SavedFor(b, a), b = SavedFor(a, b)](const Tensor& dy, Node& node) {
                  const auto times_dy = [&dy](const Tensor& factor) {
                    return Compute(BinaryOp::kMultiply, dy, factor, dy.shape());
                  };
                  if (GradMeta* da = node.input(0)) AddSummed(*da, times_dy(b));
                  if (GradMeta* db = node.input(1)) AddSummed(*db, times_dy(a));
                });
}

// d(a / b) = da / b - y db / b.
Tensor Divide(const Tensor& a, const Tensor& b) {
  Tensor y = ComputeBroadcast("Divide", BinaryOp::kDivide, a, b);
  if (!NeedsTape({a, b})) return y;
  Tensor kept = y.Detach();
  return Record("Divide", std::move(y), {a, b},
                [y = std::move(kept), b = Saved(b)](const Tensor& dy, Node& node) {
                  const Tensor per_b = Compute(BinaryOp::kDivide, dy, b, dy.shape());
                  if (GradMeta* da = node.input(0)) AddSummed(*da, per_b);
                  if (GradMeta* db = node.input(1)) {
                    AddSummed(*db, Negative(Compute(BinaryOp::kMultiply, per_b, y, dy.shape())));
                  }
                });
}

Tensor operator*(const Tensor& a, double factor) {
  RequireDefined("Multiply", {a});
  Tensor y = Tensor::Empty(a.shape(), a.options());
  kernels::Scale(factor, a, y);
  if (!NeedsTape({a})) return y;
  return Record("Multiply", std::move(y), {a},
                [factor](const Tensor& dy, Node& node) { AddScaled(*node.input(0), factor, dy); });
}

Tensor operator+(const Tensor& a, double value) {
  RequireDefined("Add", {a});
  Tensor y = Tensor::Empty(a.shape(), a.options());
  kernels::AddScalar(value, a, y);
  if (!NeedsTape({a})) return y;
  return Record("Add", std::move(y), {a},
                [](const Tensor& dy, Node& node) { node.input(0)->Add(dy); });
}

}  // namespace ops
