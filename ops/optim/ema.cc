#include "ops/optim/ema.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

namespace ops::optim {
namespace {

void RequireFloating(const NamedTensor& parameter) {
  const auto& [name, tensor] = parameter;
  if (tensor.defined() && IsFloating(tensor.dtype())) return;
  throw std::invalid_argument(
      fmt::format("there is no average of '{}': it is {}", name, tensor.Describe()));
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<NamedTensor> parameters,
                                                   double decay)
    : parameters_(std::move(parameters)), averages_(parameters_.size()), decay_(decay) {
  if (!(decay >= 0 && decay <= 1)) {
    throw std::invalid_argument(
        fmt::format("the decay of an average is {}, expected a number from 0 to 1", decay));
  }
  std::map<DType, int64_t> num_elements;
  for (const NamedTensor& parameter : parameters_) {
    RequireFloating(parameter);
    num_elements[parameter.tensor.dtype()] += parameter.tensor.num_elements();
  }
  for (const auto& [dtype, count] : num_elements) {
    Flat& flat = flat_.emplace_back(kernels::FlatRange(dtype),
                                    Tensor::Empty({count}, {.dtype = kernels::StateDType(dtype)}));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& [name, parameter] = parameters_[i];
      if (parameter.dtype() != dtype) continue;
      const int64_t begin = flat.range.num_elements();
      const Tensor average = flat.averages.Slice(begin, begin + parameter.num_elements());
      averages_[i] = {name, average.View(parameter.shape())};
      averages_[i].tensor.CopyFrom(parameter);
      flat.range.Add(parameter, {}, begin, 0);
    }
  }
}

void ExponentialMovingAverage::Update() {
  for (const Flat& flat : flat_) kernels::AverageStep(flat.range, flat.averages, decay_);
}

ScopedAverages::ScopedAverages(const ExponentialMovingAverage& average) : average_(average) {
  for (const NamedTensor& parameter : average.parameters()) {
    replaced_.push_back(parameter.tensor.Clone());
  }
  for (size_t i = 0; i < replaced_.size(); ++i) {
    average.parameters()[i].tensor.CopyFrom(average.averages()[i].tensor);
  }
}

ScopedAverages::~ScopedAverages() {
  for (size_t i = 0; i < replaced_.size(); ++i) {
    average_.parameters()[i].tensor.CopyFrom(replaced_[i]);
  }
}

}  // namespace ops::optim
