#include "ops/autograd/elementwise.h"

#include <fmt/format.h>

#include <stdexcept>
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

Shape BroadcastShape(const char* name, const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() ? a.shape() : BroadcastShapes(name, a.shape(), b.shape());
}

Tensor ComputeBroadcast(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  RequireSameType(name, a, b);
  return Compute(op, a, b, BroadcastShape(name, a, b));
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

Tensor Compared(const char* name, kernels::Comparison comparison, const Tensor& a,
                const Tensor& b) {
  RequireSameType(name, a, b);
  Tensor y = Tensor::Empty(BroadcastShape(name, a, b), {DType::kUInt8, a.device()});
  kernels::Compare(comparison, a, b, y);
  return y;
}

Tensor Select(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& shape) {
  Tensor out = Tensor::Empty(shape, a.options());
  kernels::Where(condition, a, b, out);
  return out;
}

Tensor CastTo(const Tensor& x, DType dtype) {
  Tensor y = Tensor::Empty(x.shape(), {dtype, x.device()});
  kernels::Cast(x, y);
  return y;
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

using kernels::Comparison;

Tensor Equal(const Tensor& a, const Tensor& b) {
  return Compared("Equal", Comparison::kEqual, a, b);
}

Tensor NotEqual(const Tensor& a, const Tensor& b) {
  return Compared("NotEqual", Comparison::kNotEqual, a, b);
}

Tensor Less(const Tensor& a, const Tensor& b) { return Compared("Less", Comparison::kLess, a, b); }

Tensor LessEqual(const Tensor& a, const Tensor& b) {
  return Compared("LessEqual", Comparison::kLessEqual, a, b);
}

Tensor Greater(const Tensor& a, const Tensor& b) {
  return Compared("Greater", Comparison::kLess, b, a);
}

Tensor GreaterEqual(const Tensor& a, const Tensor& b) {
  return Compared("GreaterEqual", Comparison::kLessEqual, b, a);
}

Tensor Where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  RequireDefined("Where", {condition});
  RequireSameType("Where", a, b);
  if (condition.dtype() != DType::kUInt8) {
    throw std::invalid_argument(
        fmt::format("Where: the condition is {}, expected uint8", condition.Describe()));
  }
  const Shape shape = BroadcastShapes("Where", condition.shape(), BroadcastShape("Where", a, b));
  Tensor y = Select(condition, a, b, shape);
  if (!NeedsTape({a, b})) return y;
  return Record("Where", std::move(y), {a, b}, [condition](const Tensor& dy, Node& node) {
    const Tensor zero = Tensor::Zeros({}, dy.options());
    if (GradMeta* da = node.input(0)) AddSummed(*da, Select(condition, dy, zero, dy.shape()));
    if (GradMeta* db = node.input(1)) AddSummed(*db, Select(condition, zero, dy, dy.shape()));
  });
}

Tensor Cast(const Tensor& x, DType dtype) {
  RequireDefined("Cast", {x});
  if (x.dtype() == dtype) return x;
  Tensor y = CastTo(x, dtype);
  if (!IsFloating(dtype) || !NeedsTape({x})) return y;
  return Record("Cast", std::move(y), {x}, [](const Tensor& dy, Node& node) {
    node.input(0)->Add(CastTo(dy, node.input(0)->options().dtype));
  });
}

}  // namespace ops
