// Nonlinear functions, element by element, and dropout. Inputs that aren't floating point throw
// std::invalid_argument. NaN stays NaN.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops {

Tensor Relu(const Tensor& x);
// relu(a + b), of equal shapes, in one pass and keeping the output alone: the end of a residual
// block.
Tensor AddRelu(const Tensor& a, const Tensor& b);
// x where x > 0, else negative_slope x.
Tensor LeakyRelu(const Tensor& x, double negative_slope = 0.01);

// Gelu: x P(X <= x) for a standard normal X (Hendrycks and Gimpel 2016), with the error function,
// or by its approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which GPT-2 has.
enum class Approximate { kNone, kTanh };
Tensor Gelu(const Tensor& x, Approximate approximate = Approximate::kNone);

Tensor Sigmoid(const Tensor& x);
Tensor Tanh(const Tensor& x);
// x sigmoid(x).
Tensor Silu(const Tensor& x);
// silu(gate) up, of equal shapes, in one pass (Shazeer 2020).
Tensor SwiGlu(const Tensor& gate, const Tensor& up);

// Which random numbers a dropout draws. A mask is a function of these and of the element's position
// alone (Philox, random.h): not of threads, nor of how a batch is spread over ranks, when each rank
// says at which position of the whole batch its part begins.
struct DropoutKey {
  uint64_t seed = 0;           // of the layer
  uint64_t step = 0;           // another mask in every step
  int64_t first_position = 0;  // of x's first element in the whole batch's tensor
};
// Each element is 0 with `probability`, else x / (1 - probability); the same mask in backward,
// drawn again and not stored. Throws std::invalid_argument for a probability outside [0, 1], and
// for a negative position.
Tensor Dropout(const Tensor& x, double probability, const DropoutKey& key);

}  // namespace ops
