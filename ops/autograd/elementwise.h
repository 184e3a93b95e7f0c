// Arithmetic, element by element, with NumPy's broadcasting.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops {

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

// 1 where the comparison holds, else 0: uint8, without a gradient. A comparison with NaN is false,
// except for NotEqual.
Tensor Equal(const Tensor& a, const Tensor& b);
Tensor NotEqual(const Tensor& a, const Tensor& b);
Tensor Less(const Tensor& a, const Tensor& b);
Tensor LessEqual(const Tensor& a, const Tensor& b);
Tensor Greater(const Tensor& a, const Tensor& b);
Tensor GreaterEqual(const Tensor& a, const Tensor& b);

// a where `condition` (uint8) isn't 0, else b; all three are broadcast to one shape. A value that
// wasn't chosen has gradient 0, even where it is NaN.
Tensor Where(const Tensor& condition, const Tensor& a, const Tensor& b);

// The same values in another dtype (Tensor::To), x itself where it has that already; the gradient
// is cast back.
Tensor Cast(const Tensor& x, DType dtype);

}  // namespace ops
