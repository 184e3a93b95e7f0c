#include "ops/optim/lion.h"

#include <utility>

#include "ops/optim/kernels.h"

namespace ops::optim {
namespace {

constexpr std::string_view kStateNames[] = {"exp_avg"};

}  // namespace

Lion::Lion(std::vector<NamedTensor> parameters, const LionOptions& options)
    : Lion(OneGroup(std::move(parameters)), options) {}

Lion::Lion(std::vector<ParameterGroup> groups, const LionOptions& options)
    : Optimizer(std::move(groups), options.learning_rate, options.weight_decay, kStateNames),
      options_(options) {
  Fraction("beta1", options.beta1);
  Fraction("beta2", options.beta2);
}

void Lion::Update(const FlatGroup& flat, double learning_rate, double weight_decay) {
  kernels::LionStep(flat.range(), flat.state(0),
                    {.learning_rate = learning_rate,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .weight_decay = weight_decay});
}

}  // namespace ops::optim
