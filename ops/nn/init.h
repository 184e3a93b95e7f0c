// Initial values: PyTorch's torch.nn.init, by name. Each overwrites `tensor`, floating point, with
// draws from `generator`. Fans follow PyTorch: of [out, in, ...] the fan-in is in times the product
// of the rest, the fan-out is out times it; a tensor of fewer than 2 dimensions throws
// std::invalid_argument where a fan is needed.
#pragma once

#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace ops::nn::init {

void Uniform(const Tensor& tensor, double low, double high, Generator& generator);
void Normal(const Tensor& tensor, double mean, double standard_deviation, Generator& generator);
void Constant(const Tensor& tensor, double value);

// U(-b, b) with b = gain sqrt(6 / (fan_in + fan_out)), and N(0, gain sqrt(2 / (fan_in + fan_out))).
// Glorot and Bengio 2010.
void XavierUniform(const Tensor& tensor, Generator& generator, double gain = 1);
void XavierNormal(const Tensor& tensor, Generator& generator, double gain = 1);

// U(-b, b) with b = gain sqrt(3 / fan_in), and N(0, gain / sqrt(fan_in)); the gain for a leaky ReLU
// of negative slope a is sqrt(2 / (1 + a^2)). He et al. 2015. PyTorch's layers start with a =
// sqrt(5), which is U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
void KaimingUniform(const Tensor& tensor, Generator& generator, double negative_slope = 0);
void KaimingNormal(const Tensor& tensor, Generator& generator, double negative_slope = 0);

}  // namespace ops::nn::init
