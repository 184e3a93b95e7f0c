// Optimizers: they change parameters by their gradients. The formulas are PyTorch's.
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

#include <cstdint>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops::optim {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void Step() = 0;
  // "None yet" for the gradient of every parameter.
  void ZeroGrad();

  double learning_rate() const { return learning_rate_; }
  // For schedules. Throws std::invalid_argument unless finite and not negative.
  void set_learning_rate(double learning_rate);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 protected:
  Optimizer(std::vector<NamedTensor> parameters, double learning_rate);

 private:
  std::vector<NamedTensor> parameters_;
  double learning_rate_;
};

struct SgdOptions {
  double learning_rate = 0.001;
  double momentum = 0;
  double weight_decay = 0;
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<NamedTensor> parameters, const SgdOptions& options = {});
  void Step() override;

 private:
  SgdOptions options_;
  std::vector<Tensor> momentum_buffers_;  // undefined until the parameter's first step
};

struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // added to the gradient: Adam; AdamW decays the weight itself
};

class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<NamedTensor> parameters, const AdamOptions& options = {});
  void Step() override;

 protected:
  Adam(std::vector<NamedTensor> parameters, const AdamOptions& options,
       bool decoupled_weight_decay);

 private:
  struct State {
    Tensor first_moment, second_moment;
    int64_t step = 0;
  };
  AdamOptions options_;
  bool decoupled_weight_decay_;
  std::vector<State> states_;
};

class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<NamedTensor> parameters, AdamOptions options = {.weight_decay = 0.01});
};

}  // namespace ops::optim
