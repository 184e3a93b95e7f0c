// Optimizers change parameters by their gradients. This is what they have in common; sgd.h and
// adam.h have the optimizers. The formulas are PyTorch's.
//
//   optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01, .momentum = 0.9});
//   optimizer.ZeroGrad();
//   Backward(loss);
//   optimizer.Step();
//
// A parameter without a gradient is left alone: no decay, no momentum, no count of steps.
// Constructors throw std::invalid_argument, with name and value, for options that make no sense
// (a negative learning rate, a beta outside [0, 1), NaN), and for a list without parameters.
#pragma once

#include <vector>

#include "ops/tensor/tensor.h"

namespace ops::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  virtual void Step() = 0;
  // "None yet" for the gradient of every parameter.
  void ZeroGrad();

  double learning_rate() const { return learning_rate_; }
  // For schedules. Throws std::invalid_argument unless finite and not negative.
  void set_learning_rate(double learning_rate);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 protected:
  Optimizer(std::vector<NamedTensor> parameters, double learning_rate);

  // Throw std::invalid_argument, with name and value, unless the option is finite and at least 0;
  // or in [0, 1).
  static double NotNegative(const char* option, double value);
  static double Fraction(const char* option, double value);

 private:
  std::vector<NamedTensor> parameters_;
  double learning_rate_;
};

}  // namespace ops::optim
