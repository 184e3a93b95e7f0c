#include "ops/optim/flat_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ops/autograd/grad.h"

namespace ops::optim {
namespace {

constexpr std::string_view kStep = "step";

[[noreturn]] void Refuse(std::string_view name, const Tensor& value, std::string_view expected) {
  throw std::invalid_argument(fmt::format("the optimizer's state '{}' is {}, expected {}", name,
                                          value.defined() ? value.Describe() : "missing",
                                          expected));
}

bool HasGrad(const Tensor& parameter) {
  return Grad(parameter).defined() || SparseGrad(parameter).defined();
}

}  // namespace

FlatGroup::FlatGroup(std::vector<NamedTensor> parameters,
                     std::span<const std::string_view> state_names)
    : parameters_(std::move(parameters)),
      state_names_(state_names),
      state_begins_(parameters_.size(), kNoState),
      steps_(Tensor::Zeros({static_cast<int64_t>(parameters_.size())}, {.dtype = DType::kInt64})),
      range_(parameters_.front().tensor.dtype()) {
  range_.Reserve(static_cast<int64_t>(parameters_.size()));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    indices_.emplace(parameters_[i].name, i);
    all_.push_back(i);
  }
}

void FlatGroup::RefuseSparse(std::string_view why) const {
  for (const auto& [name, parameter] : parameters_) {
    if (!SparseGrad(parameter).defined()) continue;
    throw std::invalid_argument(fmt::format(
        "the gradient of parameter '{}' is sparse, which doesn't go with {}", name, why));
  }
}

void FlatGroup::BeginStep(SparseSteps sparse) { BeginStepOf(sparse, all_); }

void FlatGroup::BeginStep(SparseSteps sparse, std::span<const NamedTensor> parameters) {
  chosen_.clear();
  for (const NamedTensor& parameter : parameters) {
    const auto found = indices_.find(parameter.name);
    if (found != indices_.end()) chosen_.push_back(found->second);
  }
  std::ranges::sort(chosen_);
  BeginStepOf(sparse, chosen_);
}

void FlatGroup::BeginStepOf(SparseSteps sparse, std::span<const size_t> members) {
  range_.Clear();
  const auto lacks_room = [&](size_t i) {
    return !has_states(i) && HasGrad(parameters_[i].tensor);
  };
  if (std::ranges::any_of(members, lacks_room)) {
    std::vector<bool> has_room;
    for (const size_t i : all_) has_room.push_back(has_states(i));
    for (const size_t i : members) has_room[i] = has_states(i) || lacks_room(i);
    LayOut(has_room);
  }
  int64_t* const steps = steps_.data<int64_t>();
  for (const size_t i : members) {
    const Tensor& parameter = parameters_[i].tensor;
    if (!HasGrad(parameter)) continue;
    ++steps[i];
    if (const Tensor gradient = Grad(parameter); gradient.defined()) {
      range_.Add(parameter, gradient, state_begins_[i], steps[i]);
    } else {
      AddSparse(i, sparse);
    }
  }
}

void FlatGroup::AddSparse(size_t parameter, SparseSteps sparse) {
  const Tensor& tensor = parameters_[parameter].tensor;
  const int64_t state_begin = state_begins_[parameter];
  const int64_t step = steps_.data<int64_t>()[parameter];
  const SparseGradient gradient = CoalesceGrad(tensor);
  if (sparse == SparseSteps::kRows) {
    range_.AddRows(tensor, gradient.ids, gradient.rows, state_begin, step);
  } else {
    densified_.push_back(Densify(gradient, tensor.dim(0)));
    range_.Add(tensor, densified_.back(), state_begin, step);
  }
}

void FlatGroup::LayOut(const std::vector<bool>& has_room) {
  std::vector<int64_t> begins(parameters_.size(), kNoState);
  int64_t total = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (has_room[i]) begins[i] = std::exchange(total, total + parameters_[i].tensor.num_elements());
  }
  for (size_t s = 0; s < state_names_.size(); ++s) {
    const Tensor moved = Tensor::Zeros({total}, {.dtype = kernels::StateDType(range_.dtype())});
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!has_room[i] || !has_states(i)) continue;
      const int64_t count = parameters_[i].tensor.num_elements();
      moved.Slice(begins[i], begins[i] + count)
          .CopyFrom(states_[s].Slice(state_begins_[i], state_begins_[i] + count));
    }
    states_[s] = moved;
  }
  state_begins_ = std::move(begins);
}

Tensor FlatGroup::StateOf(size_t parameter, int state) const {
  const int64_t begin = state_begins_[parameter];
  const Tensor& tensor = parameters_[parameter].tensor;
  return states_[state].Slice(begin, begin + tensor.num_elements()).View(tensor.shape());
}

std::string FlatGroup::StateName(size_t parameter, std::string_view state) const {
  return fmt::format("{}.{}", parameters_[parameter].name, state);
}

void FlatGroup::AppendStateTo(std::vector<NamedTensor>& list) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!has_states(i)) continue;
    for (size_t s = 0; s < state_names_.size(); ++s) {
      list.push_back({StateName(i, state_names_[s]), StateOf(i, static_cast<int>(s))});
    }
    const auto row = static_cast<int64_t>(i);
    list.push_back({StateName(i, kStep), steps_.Slice(row, row + 1).View({})});
  }
}

FlatGroup::LoadedState FlatGroup::TakeFrom(StateByName& state) const {
  const auto take = [&state](const std::string& name) {
    const auto node = state.extract(name);
    return node.empty() ? Tensor() : node.mapped();
  };
  LoadedState loaded(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string step_name = StateName(i, kStep);
    const Tensor step = take(step_name);
    std::array<Tensor, kMaxStates> values;
    bool is_spoken_of = step.defined();
    for (size_t s = 0; s < state_names_.size(); ++s) {
      values[s] = take(StateName(i, state_names_[s]));
      is_spoken_of |= values[s].defined();
    }
    if (!is_spoken_of) continue;
    const Tensor& parameter = parameters_[i].tensor;
    const DType dtype = kernels::StateDType(parameter.dtype());
    for (size_t s = 0; s < state_names_.size(); ++s) {
      const Tensor& value = values[s];
      if (value.defined() && value.shape() == parameter.shape() && value.dtype() == dtype) continue;
      Refuse(StateName(i, state_names_[s]), value,
             fmt::format("{}{}", Name(dtype), parameter.shape().ToString()));
    }
    if (!step.defined() || step.num_elements() != 1) Refuse(step_name, step, "one number");
    loaded[i] = {std::move(values), static_cast<int64_t>(step.Item())};
  }
  return loaded;
}

void FlatGroup::Load(const LoadedState& state) {
  state_begins_.assign(parameters_.size(), kNoState);
  std::vector<bool> has_room;
  for (const auto& parameter : state) has_room.push_back(parameter.has_value());
  LayOut(has_room);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    steps_.data<int64_t>()[i] = state[i] ? state[i]->step : 0;
    for (size_t s = 0; state[i] && s < state_names_.size(); ++s) {
      StateOf(i, static_cast<int>(s)).CopyFrom(state[i]->states[s]);
    }
  }
}

}  // namespace ops::optim
