#include "ops/optim/clip.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "ops/autograd/grad.h"
#include "ops/optim/kernels.h"

namespace ops::optim {
namespace {

void RequireBound(const char* name, double bound) {
  if (bound >= 0) return;
  throw std::invalid_argument(fmt::format("{} is {}, expected at least 0", name, bound));
}

template <class F>
void ForEachGrad(const std::vector<NamedTensor>& parameters, F f) {
  for (const NamedTensor& parameter : parameters) {
    const Tensor gradient = GradElements(parameter.tensor);
    if (gradient.defined()) f(gradient);
  }
}

}  // namespace

double GradNorm(const std::vector<NamedTensor>& parameters) {
  double sum = 0;
  ForEachGrad(parameters, [&](const Tensor& gradient) { sum += kernels::SumOfSquares(gradient); });
  return std::sqrt(sum);
}

double ClipGradNorm(const std::vector<NamedTensor>& parameters, double max_norm) {
  RequireBound("max_norm", max_norm);
  const double norm = GradNorm(parameters);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  ForEachGrad(parameters,
              [&](const Tensor& gradient) { kernels::Scale(factor, gradient, gradient); });
  return norm;
}

void ClipGradValue(const std::vector<NamedTensor>& parameters, double limit) {
  RequireBound("limit", limit);
  ForEachGrad(parameters,
              [&](const Tensor& gradient) { kernels::Clamp(-limit, limit, gradient, gradient); });
}

bool AllFinite(const Tensor& gradient) { return kernels::AllFinite(gradient); }

}  // namespace ops::optim
