// Differentiable functions of tensors: they compute at once and leave a tape behind when an input
// requires a gradient (grad.h). Each throws std::invalid_argument, with both shapes or dtypes, for
// inputs that don't go together.
#pragma once

#include <string_view>

#include "ops/tensor/tensor.h"

namespace ops {

// Elementwise, with NumPy's broadcasting.
Tensor Add(const Tensor& a, const Tensor& b);
Tensor Subtract(const Tensor& a, const Tensor& b);
Tensor Multiply(const Tensor& a, const Tensor& b);
Tensor Divide(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return Add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return Subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return Multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return Divide(a, b); }
// With a number: floating point tensors only.
Tensor operator*(const Tensor& a, double factor);
inline Tensor operator*(double factor, const Tensor& a) { return a * factor; }
inline Tensor operator/(const Tensor& a, double divisor) { return a * (1 / divisor); }
Tensor operator+(const Tensor& a, double value);
inline Tensor operator-(const Tensor& a, double value) { return a + -value; }

// [m, k] x [k, n] -> [m, n], each factor transposed first where asked.
struct MatMulFlags {
  bool transpose_a = false;
  bool transpose_b = false;
};
Tensor MatMul(const Tensor& a, const Tensor& b, const MatMulFlags& flags = {});

// y = x W^T + b: x [..., in], weight [out, in], bias [out] or undefined -> [..., out].
Tensor Linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

Tensor Relu(const Tensor& x);

// The sum and the mean of all elements: a scalar.
Tensor Sum(const Tensor& x);
Tensor Mean(const Tensor& x);
// The sum over one dimension, which disappears; negative counts from the last.
Tensor Sum(const Tensor& x, int dim);

// The same elements in another shape.
Tensor Reshape(const Tensor& x, const Shape& shape);

// mean((x - target)^2) over all elements; shapes must be equal (no silent broadcasting).
Tensor MseLoss(const Tensor& x, const Tensor& target);
// Mean over the batch of the cross-entropy between softmax(logits[batch, classes]) and the classes
// in targets[batch] (int64).
Tensor CrossEntropyLoss(const Tensor& logits, const Tensor& targets);

}  // namespace ops
