#include "ops/optim/master_weights.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ops/autograd/grad.h"
#include "ops/optim/kernels.h"

namespace ops::optim {
namespace {

bool NeedsMaster(const NamedTensor& parameter) {
  const auto& [name, tensor] = parameter;
  if (tensor.defined() && IsFloating(tensor.dtype())) return SizeOf(tensor.dtype()) == 2;
  throw std::invalid_argument(fmt::format("there is no master weight of '{}': it is {}", name,
                                          tensor.defined() ? tensor.Describe() : "undefined"));
}

// Hands out tensors that lie one after the other in memory.
class Buffer {
 public:
  explicit Buffer(int64_t num_elements) : memory_(Tensor::Zeros({num_elements})) {}

  Tensor Next(const Shape& shape) {
    const int64_t begin = end_;
    end_ += shape.num_elements();
    return memory_.Slice(begin, end_).View(shape);
  }

 private:
  Tensor memory_;
  int64_t end_ = 0;
};

}  // namespace

MasterWeights::MasterWeights(std::vector<NamedTensor> parameters)
    : masters_(std::move(parameters)) {
  int64_t num_elements = 0;
  for (const NamedTensor& parameter : masters_) {
    if (NeedsMaster(parameter)) num_elements += parameter.tensor.num_elements();
  }
  Buffer masters(num_elements), gradients(num_elements);
  for (NamedTensor& named : masters_) {
    if (!NeedsMaster(named)) continue;
    const Tensor parameter = named.tensor;
    named.tensor = masters.Next(parameter.shape());
    kernels::Cast(parameter, named.tensor);
    SetRequiresGrad(named.tensor);
    pair_of_.emplace(named.name, pairs_.size());
    pairs_.push_back({parameter, named.tensor, gradients.Next(parameter.shape())});
  }
}

void MasterWeights::WidenGradients() {
  for (const Pair& pair : pairs_) Widen(pair);
}

void MasterWeights::RoundIntoModel() {
  for (const Pair& pair : pairs_) kernels::Cast(pair.master, pair.parameter);
}

void MasterWeights::WidenGradients(std::span<const NamedTensor> parameters) {
  for (const NamedTensor& parameter : parameters) {
    const auto found = pair_of_.find(parameter.name);
    if (found != pair_of_.end()) Widen(pairs_[found->second]);
  }
}

void MasterWeights::RoundIntoModel(std::span<const NamedTensor> parameters) {
  for (const NamedTensor& parameter : parameters) {
    const auto found = pair_of_.find(parameter.name);
    if (found == pair_of_.end()) continue;  // its own master
    const Pair& pair = pairs_[found->second];
    kernels::Cast(pair.master, pair.parameter);
  }
}

void MasterWeights::Widen(const Pair& pair) {
  const Tensor gradient = Grad(pair.parameter);
  const SparseGradient sparse = SparseGrad(pair.parameter);
  if (sparse.defined()) {
    SetSparseGrad(pair.master, {sparse.ids, sparse.rows.To(pair.master.dtype())});
  } else if (gradient.defined()) {
    kernels::Cast(gradient, pair.gradient);
    SetGrad(pair.master, pair.gradient);
  } else {
    ClearGrad(pair.master);
  }
}

void MasterWeights::LoadStateDict(const std::vector<NamedTensor>& state) {
  std::map<std::string_view, Tensor> by_name;
  for (const auto& [name, tensor] : state) by_name.emplace(name, tensor);
  for (const auto& [name, master] : masters_) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      throw std::invalid_argument(fmt::format("the state has no '{}'", name));
    }
    const Tensor& tensor = found->second;
    if (tensor.shape() == master.shape() && IsFloating(tensor.dtype())) continue;
    throw std::invalid_argument(fmt::format("'{}' is {} in the state, expected {}", name,
                                            tensor.Describe(), master.Describe()));
  }
  for (const auto& [name, master] : masters_) master.CopyFrom(by_name.at(name));
  RoundIntoModel();
}

}  // namespace ops::optim
