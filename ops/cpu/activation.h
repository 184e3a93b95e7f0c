// Nonlinear functions on the CPU, element by element, and dropout. Shapes and dtypes are the
// caller's to check: floating point, all tensors of a call alike. Outputs may be inputs themselves.
// bfloat16 and float16 are calculated in float32 and rounded once. With `accumulate`, a gradient is
// added to what is there.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// Formulas: ops/autograd/activations.h. kLeakyRelu has a parameter, its negative slope. NaN stays
// NaN in all.
enum class Activation { kRelu, kLeakyRelu, kGelu, kGeluTanh, kSigmoid, kTanh, kSilu };

// Whether the way back reads y = f(x), or x.
constexpr bool NeedsOutput(Activation f) {
  return f == Activation::kRelu || f == Activation::kSigmoid || f == Activation::kTanh;
}

// y = f(x).
void Activate(Activation f, const Tensor& x, const Tensor& y, double parameter = 0);
// dx = dy f'(x) from y or x, as NeedsOutput says. ReLU's is 0 where y <= 0, else dy: so where y is
// NaN, too.
void ActivateBackward(Activation f, const Tensor& kept, const Tensor& dy, const Tensor& dx,
                      bool accumulate, double parameter = 0);

// y = relu(a + b). Its way back is ReLU's.
void AddRelu(const Tensor& a, const Tensor& b, const Tensor& y);

// y = silu(gate) up.
void SwiGlu(const Tensor& gate, const Tensor& up, const Tensor& y);
// dgate = dy up silu'(gate) and dup = dy silu(gate).
void SwiGluGateBackward(const Tensor& gate, const Tensor& up, const Tensor& dy, const Tensor& dgate,
                        bool accumulate);
void SwiGluUpBackward(const Tensor& gate, const Tensor& dy, const Tensor& dup, bool accumulate);

// y[i] = x[i] / (1 - probability) where word i + first_position of Philox(seed, step, 0),
// Philox(seed, step, 1), ... is at least 2^32 probability, else 0 x[i]. It is its own way back.
struct DropoutMask {
  double probability;
  uint64_t seed;
  uint64_t step;
  uint64_t first_position;
};
void Dropout(const Tensor& x, const DropoutMask& mask, const Tensor& y, bool accumulate);

}  // namespace ops::cpu
