// Optimizer steps on the CPU: one vectorised pass over all parameters of a range (flat_range.h),
// and over the states that belong to them, tensors of StateDType. The formulas are PyTorch's, in
// its order of operations. bfloat16 and float16 parameters are calculated in float32 and rounded
// once. States begin as zeros.
#pragma once

#include "ops/cpu/flat_range.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct SgdStepOptions {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// g = gradient + weight_decay p;  b = momentum b + g;  p -= learning_rate b, or with Nesterov's
// momentum learning_rate (g + momentum b), or without momentum learning_rate g, where the momentum
// buffer b may be undefined. The gradient is left as it is.
void SgdStep(const FlatRange& range, const Tensor& momentum_buffer, const SgdStepOptions& options);

struct AdamStepOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // AdamW: p *= 1 - learning_rate weight_decay, first
};

// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
// p -= learning_rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon), where t is the
// segment's step. Kingma and Ba 2015; Loshchilov and Hutter 2019 for the decoupled weight decay.
void AdamStep(const FlatRange& range, const Tensor& first_moment, const Tensor& second_moment,
              const AdamStepOptions& options);

struct LionStepOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

// p *= 1 - learning_rate weight_decay;  p -= learning_rate sign(beta1 m + (1 - beta1) g);
// m = beta2 m + (1 - beta2) g. The sign of 0 is 0, that of NaN is NaN. Chen et al. 2023.
void LionStep(const FlatRange& range, const Tensor& momentum, const LionStepOptions& options);

// average += (1 - decay) (p - average). Gradients aren't looked at.
void AverageStep(const FlatRange& range, const Tensor& average, double decay);

}  // namespace ops::cpu
