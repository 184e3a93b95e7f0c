// Elementwise kernels on the CPU. Shapes and dtypes are the caller's to check; `out` has its memory
// and may be an input itself. Arithmetic is IEEE's: NaN and infinity propagate, division by zero
// gives infinity or NaN. bfloat16 and float16 are calculated in float32 and rounded once.
//
// The loops are compiled for several instruction sets; the best that the CPU has is picked once,
// through function pointers, so one build runs on any x86-64.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide };

// out = a op b, broadcast to out's shape (NumPy's rule; out.shape() is BroadcastShapes of both).
// Every dtype; integer division truncates, and by zero throws std::invalid_argument.
void Binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out);

// out = 1 where the comparison holds, else 0: uint8, broadcast as above. Every dtype of a and b; a
// comparison with NaN is false, but for kNotEqual.
enum class Comparison { kEqual, kNotEqual, kLess, kLessEqual };
void Compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& out);

// out = a where condition (uint8) isn't 0, else b, all of them broadcast to out's shape. Every
// dtype.
void Where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out);

// out = x in out's dtype, as Tensor::To.
void Cast(const Tensor& x, const Tensor& out);

// The rest knows floating point dtypes only, and throws std::invalid_argument for others.

// Overwrites, or adds where `accumulate`:
//   Scale: out = factor x          AddScalar: out = x + value
void Scale(double factor, const Tensor& x, const Tensor& out, bool accumulate = false);
void AddScalar(double value, const Tensor& x, const Tensor& out);
// out = x, but `low` where it is less and `high` where it is more; NaN stays NaN.
void Clamp(double low, double high, const Tensor& x, const Tensor& out);

}  // namespace ops::cpu
