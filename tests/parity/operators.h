// Our functions by the names that the golden cases have, with the cases' attributes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace parity {

// How far a result may be from PyTorch's: `spacings` times the distance of neighbouring numbers of
// the dtype near `scale`.
struct Tolerance {
  enum class Scale {
    kElement,  // of the element itself: functions of one element, of few roundings
    kUnit,     // at least 1: where PyTorch's own formula cancels, such as 1 + erf
    kLargest,  // of the tensor's largest finite element: sums, in another order than PyTorch's
  };
  double spacings = 0;  // 0: equal
  Scale scale = Scale::kElement;
  bool subnormal_is_zero = false;
};

struct Operator {
  using Inputs = std::vector<ops::Tensor>;  // undefined where the case has none
  using Function = std::vector<ops::Tensor> (*)(const Inputs& x, const nlohmann::json& attributes);
  Function function;
  Tolerance outputs;
  Tolerance gradients;
};

// Throws std::out_of_range for a function that isn't known.
const Operator& FindOperator(const std::string& function);

}  // namespace parity
