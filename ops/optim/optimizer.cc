#include "ops/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "ops/autograd/grad.h"

namespace ops::optim {
namespace {

// Throws unless `next` can be changed and isn't among `known`.
void RequireNew(const std::vector<NamedTensor>& known, const NamedTensor& next) {
  const auto& [name, parameter] = next;
  if (!parameter.defined() || !IsFloating(parameter.dtype())) {
    throw std::invalid_argument(fmt::format("an optimizer can't change parameter '{}': it is {}",
                                            name, parameter.Describe()));
  }
  for (const NamedTensor& other : known) {
    if (other.tensor.IsSameAs(parameter)) {
      throw std::invalid_argument(fmt::format(
          "an optimizer was given parameter '{}' twice, first as '{}'", name, other.name));
    }
    if (other.name == name) {
      throw std::invalid_argument(
          fmt::format("an optimizer was given two parameters named '{}': {} and {}", name,
                      other.tensor.Describe(), parameter.Describe()));
    }
  }
}

std::vector<FlatGroup> ByDType(const std::vector<NamedTensor>& parameters,
                               std::span<const std::string_view> state_names) {
  std::map<DType, std::vector<NamedTensor>> by_dtype;
  for (const NamedTensor& parameter : parameters) {
    by_dtype[parameter.tensor.dtype()].push_back(parameter);
  }
  std::vector<FlatGroup> groups;
  for (auto& [dtype, members] : by_dtype) groups.emplace_back(std::move(members), state_names);
  return groups;
}

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, double learning_rate, double weight_decay,
                     std::span<const std::string_view> state_names)
    : rate_{learning_rate, learning_rate} {
  NotNegative("learning_rate", learning_rate);
  NotNegative("weight_decay", weight_decay);
  for (const ParameterGroup& group : groups) {
    for (const NamedTensor& parameter : group.parameters) {
      RequireNew(parameters_, parameter);
      parameters_.push_back(parameter);
    }
    Group& added = groups_.emplace_back();
    if (const auto rate = group.learning_rate) {
      added.own_rate = {.base = NotNegative("a group's learning_rate", *rate), .now = *rate};
    }
    added.weight_decay =
        NotNegative("a group's weight_decay", group.weight_decay.value_or(weight_decay));
    added.flat = ByDType(group.parameters, state_names);
  }
  if (parameters_.empty()) throw std::invalid_argument("an optimizer was given no parameters");
}

std::vector<ParameterGroup> Optimizer::OneGroup(std::vector<NamedTensor> parameters) {
  return {{.parameters = std::move(parameters)}};
}

void Optimizer::Step() {
  RefuseSparse();
  for (Group& group : groups_) {
    for (FlatGroup& flat : group.flat) {
      flat.BeginStep(sparse_steps());
      UpdateRange(group, flat);
    }
  }
}

void Optimizer::Step(std::span<const NamedTensor> parameters) {
  RefuseSparse();
  for (Group& group : groups_) {
    for (FlatGroup& flat : group.flat) {
      flat.BeginStep(sparse_steps(), parameters);
      UpdateRange(group, flat);
    }
  }
}

void Optimizer::RefuseSparse() const {
  for (const Group& group : groups_) {
    for (const FlatGroup& flat : group.flat) {
      if (sparse_steps() == SparseSteps::kRefused) flat.RefuseSparse("this optimizer");
      if (group.weight_decay != 0) flat.RefuseSparse("weight decay");
    }
  }
}

void Optimizer::UpdateRange(const Group& group, FlatGroup& flat) {
  Update(flat, RateOf(group).now, group.weight_decay);
  flat.EndStep();
}

void Optimizer::ZeroGrad() {
  for (const NamedTensor& parameter : parameters_) ClearGrad(parameter.tensor);
}

void Optimizer::set_learning_rate(double learning_rate) {
  NotNegative("learning_rate", learning_rate);
  rate_ = {.base = learning_rate, .now = learning_rate};
}

void Optimizer::ScaleLearningRates(double factor) {
  NotNegative("the factor of the learning rates", factor);
  rate_.now = factor * rate_.base;
  for (Group& group : groups_) {
    if (group.own_rate) group.own_rate->now = factor * group.own_rate->base;
  }
}

std::vector<NamedTensor> Optimizer::StateDict() const {
  std::vector<NamedTensor> state;
  for (const Group& group : groups_) {
    for (const FlatGroup& flat : group.flat) flat.AppendStateTo(state);
  }
  return state;
}

void Optimizer::LoadStateDict(const std::vector<NamedTensor>& state) {
  FlatGroup::StateByName left;
  for (const auto& [name, tensor] : state) left.insert_or_assign(name, tensor);
  std::vector<std::pair<FlatGroup*, FlatGroup::LoadedState>> loaded;
  for (Group& group : groups_) {
    for (FlatGroup& flat : group.flat) loaded.emplace_back(&flat, flat.TakeFrom(left));
  }
  if (!left.empty()) {
    throw std::invalid_argument(
        fmt::format("the optimizer's state has '{}', which belongs to none of its parameters",
                    left.begin()->first));
  }
  for (auto& [flat, values] : loaded) flat->Load(values);
}

double Optimizer::NotNegative(std::string_view option, double value) {
  if (std::isfinite(value) && value >= 0) return value;
  throw std::invalid_argument(
      fmt::format("{} is {}, expected a finite number of at least 0", option, value));
}

double Optimizer::Fraction(std::string_view option, double value) {
  if (value >= 0 && value < 1) return value;
  throw std::invalid_argument(
      fmt::format("{} is {}, expected a number from 0 to below 1", option, value));
}

}  // namespace ops::optim
