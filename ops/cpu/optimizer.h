// Optimizer steps on the CPU, one vectorised pass over a contiguous range each: parameters,
// gradients and states are tensors of one shape, float32 or float64. The formulas are PyTorch's,
// in its order of operations.
#pragma once

#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct SgdStepOptions {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool first_step = false;  // the momentum buffer holds nothing yet: it becomes the gradient
};

// g = gradient + weight_decay p;  momentum_buffer = g at the first step, later
// momentum momentum_buffer + g;  p -= learning_rate momentum_buffer (or g without momentum, where
// momentum_buffer may be undefined). The gradient is left as it is.
void SgdStep(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
             const SgdStepOptions& options);

struct AdamStepOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // AdamW: p *= 1 - learning_rate weight_decay, first
  int64_t step = 1;                     // t, from 1, for the bias correction
};

// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
// p -= learning_rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
// Kingma and Ba 2015; Loshchilov and Hutter 2019 for the decoupled weight decay.
void AdamStep(const Tensor& parameter, const Tensor& gradient, const Tensor& first_moment,
              const Tensor& second_moment, const AdamStepOptions& options);

}  // namespace ops::cpu
