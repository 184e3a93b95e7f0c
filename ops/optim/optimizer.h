// Optimizers change parameters by their gradients. This is what they have in common; sgd.h, adam.h
// and lion.h have the optimizers. The formulas are PyTorch's.
//
//   optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01, .momentum = 0.9});
//   optimizer.ZeroGrad();
//   Backward(loss);
//   optimizer.Step();
//
// Parameters in several groups, each with a learning rate or weight decay of its own:
//
//   optim::AdamW optimizer({{.parameters = matrices},
//                           {.parameters = biases_and_norms, .weight_decay = 0}},
//                          {.learning_rate = 3e-4, .weight_decay = 0.1});
//
// A parameter without a gradient is left alone: no decay, no momentum, no count of steps.
//
// A sparse gradient (ops/autograd/grad.h) is coalesced and otherwise left as it is. SGD without
// momentum, and Adam, change the rows that it has and leave all others, and their moments, alone;
// SGD with momentum does what it does with the dense gradient. With weight decay, and in Lion,
// every row changes in every step: there a sparse gradient is refused.
//
// Parameters in bfloat16 or float16 have states in float32, and each step rounds them once.
//
// Constructors throw std::invalid_argument, with name and value, for options that make no sense
// (a negative learning rate, a beta outside [0, 1), NaN), where there are no parameters, and for a
// parameter, or a name, that comes twice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/optim/flat_group.h"
#include "ops/tensor/tensor.h"

namespace ops::optim {

// What is not given is the optimizer's.
struct ParameterGroup {
  std::vector<NamedTensor> parameters = {};
  std::optional<double> learning_rate = {};
  std::optional<double> weight_decay = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One pass over all parameters of a group (and dtype). Results don't depend on the number of
  // threads, nor on how parameters are grouped or where they lie. Where gradients are dense,
  // allocates nothing but, at the first step, the states. Throws std::invalid_argument for a sparse
  // gradient that is refused, naming the parameter, and then nothing has changed.
  void Step();
  // The same for some of the parameters, known by their names, as soon as their gradients are
  // there: where every parameter comes once, the bits are those of one Step. Names that aren't this
  // optimizer's are passed over.
  void Step(std::span<const NamedTensor> parameters);
  // "None yet" for the gradient of every parameter.
  void ZeroGrad();

  // The learning rate of groups that weren't given one of their own.
  double learning_rate() const { return rate_.now; }
  // Gives them another. Throws std::invalid_argument unless finite and not negative.
  void set_learning_rate(double learning_rate);
  // The learning rate of the i-th group.
  double group_learning_rate(int64_t i) const { return RateOf(groups_.at(i)).now; }
  // For schedules (schedule.h): from now on, every group's learning rate is `factor` times what
  // the constructor or set_learning_rate gave it. Throws as set_learning_rate does.
  void ScaleLearningRates(double factor);

  // Those of all groups, in order.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

  // What the optimizer remembers of each parameter that has had a gradient, under the parameter's
  // name and PyTorch's: "fc.weight.exp_avg", "fc.weight.exp_avg_sq", and "fc.weight.step", the
  // steps it has taken. The tensors share memory with the optimizer until a parameter gets its
  // first gradient. Learning rates are not part of it.
  std::vector<NamedTensor> StateDict() const;
  // Copies such a state in; parameters of which it says nothing begin anew. Throws
  // std::invalid_argument for a name that isn't this optimizer's, and for what is missing or of
  // another shape or dtype, and then nothing has changed.
  void LoadStateDict(const std::vector<NamedTensor>& state);

 protected:
  // `state_names` are literals: what the optimizer remembers of each parameter.
  Optimizer(std::vector<ParameterGroup> groups, double learning_rate, double weight_decay,
            std::span<const std::string_view> state_names);

  static std::vector<ParameterGroup> OneGroup(std::vector<NamedTensor> parameters);

  // One step of the parameters in flat.range().
  virtual void Update(const FlatGroup& flat, double learning_rate, double weight_decay) = 0;

  // What it makes of sparse gradients where the weight decay is 0; with weight decay they are
  // refused.
  virtual SparseSteps sparse_steps() const = 0;

  // Throw std::invalid_argument, with name and value, unless the option is finite and at least 0;
  // or in [0, 1).
  static double NotNegative(std::string_view option, double value);
  static double Fraction(std::string_view option, double value);

 private:
  struct Rate {
    double base;  // what schedules scale
    double now;
  };
  struct Group {
    std::optional<Rate> own_rate;
    double weight_decay;
    std::vector<FlatGroup> flat;  // one for each dtype
  };

  // Throws std::invalid_argument for a sparse gradient that can't be stepped.
  void RefuseSparse() const;
  void UpdateRange(const Group& group, FlatGroup& flat);
  const Rate& RateOf(const Group& group) const { return group.own_rate ? *group.own_rate : rate_; }

  std::vector<NamedTensor> parameters_;
  std::vector<Group> groups_;
  Rate rate_;
};

}  // namespace ops::optim
