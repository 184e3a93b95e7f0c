// The operators that are timed against PyTorch's: names, shapes and gradients as in
// peers/torch_operators.py, with what each must at least calculate and move.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace benchmarks {

// Operations and bytes of one call, the least that any implementation needs: inputs read once,
// outputs written once. An exponential or the like counts as ten operations.
struct Work {
  double operations = 0;
  double num_bytes = 0;
};

struct OperatorCase {
  std::string name;
  // Makes the inputs, and returns the function that is timed: it computes the output from leaves.
  std::function<std::function<ops::Tensor()>()> make;
  Work forward, backward;
};

// Each output's gradient is given, ready; gradients go to inputs and parameters.
const std::vector<OperatorCase>& OperatorCases();

// A step of an optimizer alone.
struct StepCase {
  std::string name;
  std::function<std::function<void()>()> make;
  Work work;
};
const std::vector<StepCase>& StepCases();

}  // namespace benchmarks
