#include "ops/nn/init.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace ops::nn::init {
namespace {

struct Fans {
  double in;
  double out;
};

Fans FansOf(const char* function, const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  if (shape.rank() < 2) {
    throw std::invalid_argument(fmt::format("{}: needs a tensor of at least 2 dimensions, got {}",
                                            function, tensor.Describe()));
  }
  double receptive_field = 1;
  for (int i = 2; i < shape.rank(); ++i) receptive_field *= static_cast<double>(shape.dim(i));
  return {static_cast<double>(shape.dim(1)) * receptive_field,
          static_cast<double>(shape.dim(0)) * receptive_field};
}

double XavierDeviation(const char* function, const Tensor& tensor, double gain) {
  const Fans fans = FansOf(function, tensor);
  return gain * std::sqrt(2 / (fans.in + fans.out));
}

double KaimingDeviation(const char* function, const Tensor& tensor, double negative_slope) {
  const double gain = std::sqrt(2 / (1 + negative_slope * negative_slope));
  return gain / std::sqrt(FansOf(function, tensor).in);
}

// The uniform distribution around 0 with this standard deviation.
void CenteredUniform(const Tensor& tensor, double standard_deviation, Generator& generator) {
  const double bound = std::sqrt(3.0) * standard_deviation;
  generator.FillUniform(tensor, -bound, bound);
}

}  // namespace

void Uniform(const Tensor& tensor, double low, double high, Generator& generator) {
  generator.FillUniform(tensor, low, high);
}

void Normal(const Tensor& tensor, double mean, double standard_deviation, Generator& generator) {
  generator.FillNormal(tensor, mean, standard_deviation);
}

void Constant(const Tensor& tensor, double value) { tensor.Fill(value); }

void XavierUniform(const Tensor& tensor, Generator& generator, double gain) {
  CenteredUniform(tensor, XavierDeviation("XavierUniform", tensor, gain), generator);
}

void XavierNormal(const Tensor& tensor, Generator& generator, double gain) {
  generator.FillNormal(tensor, 0, XavierDeviation("XavierNormal", tensor, gain));
}

void KaimingUniform(const Tensor& tensor, Generator& generator, double negative_slope) {
  CenteredUniform(tensor, KaimingDeviation("KaimingUniform", tensor, negative_slope), generator);
}

void KaimingNormal(const Tensor& tensor, Generator& generator, double negative_slope) {
  generator.FillNormal(tensor, 0, KaimingDeviation("KaimingNormal", tensor, negative_slope));
}

}  // namespace ops::nn::init
