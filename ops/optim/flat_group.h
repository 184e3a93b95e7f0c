// The parameters of one dtype that an optimizer treats alike, as one flat range: their states (a
// momentum, two moments) lie in one buffer each, and a step is one pass over all of them.
//
// A parameter's states take memory from the first step that finds a gradient of it: frozen
// parameters cost nothing. They begin as zeros, and stay the same while the parameter has no
// gradient.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/optim/kernels.h"
#include "ops/tensor/tensor.h"

namespace ops::optim {

// What an optimizer makes of a sparse gradient (ops/autograd/grad.h).
enum class SparseSteps {
  kRows,   // a step of the rows that it has, which leaves all others and their states alone
  kDense,  // the step of the dense gradient
  kRefused,
};

class FlatGroup {
 public:
  static constexpr int kMaxStates = 2;

  // `state_names` are literals, at most kMaxStates: PyTorch's names ("exp_avg").
  FlatGroup(std::vector<NamedTensor> parameters, std::span<const std::string_view> state_names);

  // Throws std::invalid_argument that names the first parameter with a sparse gradient; `why` says
  // what it doesn't go with.
  void RefuseSparse(std::string_view why) const;
  // Counts a step of each parameter that has a gradient; range() is then these, until EndStep.
  void BeginStep(SparseSteps sparse);
  // The same for those of `parameters` that are the group's.
  void BeginStep(SparseSteps sparse, std::span<const NamedTensor> parameters);
  void EndStep() { densified_.clear(); }
  const kernels::FlatRange& range() const { return range_; }
  // The buffer of the i-th state; undefined where no parameter had a gradient yet.
  const Tensor& state(int i) const { return states_[i]; }

  // Appends the states of each parameter that has some, as "fc.weight.exp_avg", and the steps it
  // has taken, "fc.weight.step" (an int64 scalar). They share memory with the group.
  void AppendStateTo(std::vector<NamedTensor>& list) const;

  // What a state dict says of each parameter, in the order of parameters; nothing for some.
  struct ParameterState {
    std::array<Tensor, kMaxStates> states;
    int64_t step;
  };
  using LoadedState = std::vector<std::optional<ParameterState>>;
  using StateByName = std::map<std::string, Tensor, std::less<>>;
  // Takes what is this group's out of `state`. Throws std::invalid_argument where a parameter's
  // state is incomplete, or has another shape or dtype.
  LoadedState TakeFrom(StateByName& state) const;
  // Parameters of which it says nothing begin anew.
  void Load(const LoadedState& state);

 private:
  static constexpr int64_t kNoState = -1;

  bool has_states(size_t parameter) const { return state_begins_[parameter] != kNoState; }
  Tensor StateOf(size_t parameter, int state) const;
  void AddSparse(size_t parameter, SparseSteps sparse);
  std::string StateName(size_t parameter, std::string_view state) const;
  void BeginStepOf(SparseSteps sparse, std::span<const size_t> members);
  // Gives room for states to the parameters that `has_room` names; what both they and their
  // states have now moves along.
  void LayOut(const std::vector<bool>& has_room);

  std::vector<NamedTensor> parameters_;
  std::map<std::string, size_t, std::less<>> indices_;  // of parameters, by name
  std::vector<size_t> all_;                             // indices
  std::vector<size_t> chosen_;  // for a step of some parameters; kept to save the allocation
  std::span<const std::string_view> state_names_;
  std::vector<int64_t> state_begins_;  // by parameter: its first element in each state's buffer
  std::array<Tensor, kMaxStates> states_;
  Tensor steps_;  // int64, by parameter
  kernels::FlatRange range_;
  std::vector<Tensor> densified_;  // of the step that is going on
};

}  // namespace ops::optim
