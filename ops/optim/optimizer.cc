#include "ops/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "ops/autograd/grad.h"

namespace ops::optim {

Optimizer::Optimizer(std::vector<NamedTensor> parameters, double learning_rate)
    : parameters_(std::move(parameters)),
      learning_rate_(NotNegative("learning_rate", learning_rate)) {
  if (parameters_.empty()) throw std::invalid_argument("an optimizer was given no parameters");
  for (const auto& [name, parameter] : parameters_) {
    if (!parameter.defined() || !IsFloating(parameter.dtype())) {
      throw std::invalid_argument(fmt::format("an optimizer can't change parameter '{}': it is {}",
                                              name, parameter.Describe()));
    }
  }
}

void Optimizer::ZeroGrad() {
  for (const NamedTensor& parameter : parameters_) ClearGrad(parameter.tensor);
}

void Optimizer::set_learning_rate(double learning_rate) {
  learning_rate_ = NotNegative("learning_rate", learning_rate);
}

double Optimizer::NotNegative(const char* option, double value) {
  if (std::isfinite(value) && value >= 0) return value;
  throw std::invalid_argument(
      fmt::format("{} is {}, expected a finite number of at least 0", option, value));
}

double Optimizer::Fraction(const char* option, double value) {
  if (value >= 0 && value < 1) return value;
  throw std::invalid_argument(
      fmt::format("{} is {}, expected a number from 0 to below 1", option, value));
}

}  // namespace ops::optim
