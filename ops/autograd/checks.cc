#include "ops/autograd/checks.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ops {

void RequireDefined(std::string_view function, InputList inputs) {
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      throw std::invalid_argument(fmt::format("{}: got an undefined tensor", function));
    }
  }
}

void RequireSameType(std::string_view function, const Tensor& a, const Tensor& b) {
  RequireDefined(function, {a, b});
  if (a.dtype() == b.dtype() && a.device() == b.device()) return;
  throw std::invalid_argument(fmt::format("{}: {} and {} differ in {}", function, a.Describe(),
                                          b.Describe(),
                                          a.dtype() != b.dtype() ? "dtype" : "device"));
}

int RequireDim(std::string_view function, const Shape& shape, int dim) {
  const int rank = shape.rank();
  if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
  throw std::invalid_argument(
      fmt::format("{}: {} has no dimension {}", function, shape.ToString(), dim));
}

void RequireFloating(std::string_view function, const Tensor& x) {
  RequireDefined(function, {x});
  if (IsFloating(x.dtype())) return;
  throw std::invalid_argument(
      fmt::format("{}: expected a floating point input, got {}", function, x.Describe()));
}

}  // namespace ops
