#include "ops/optim/adam.h"

#include <utility>

#include "ops/optim/kernels.h"

namespace ops::optim {
namespace {

constexpr std::string_view kStateNames[] = {"exp_avg", "exp_avg_sq"};

}  // namespace

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options,
           bool decoupled_weight_decay)
    : Optimizer(std::move(groups), options.learning_rate, options.weight_decay, kStateNames),
      options_(options),
      decoupled_weight_decay_(decoupled_weight_decay) {
  Fraction("beta1", options.beta1);
  Fraction("beta2", options.beta2);
  NotNegative("epsilon", options.epsilon);
}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Adam(std::move(groups), options, /*decoupled_weight_decay=*/false) {}

Adam::Adam(std::vector<NamedTensor> parameters, const AdamOptions& options)
    : Adam(OneGroup(std::move(parameters)), options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamOptions& options)
    : Adam(std::move(groups), options, /*decoupled_weight_decay=*/true) {}

AdamW::AdamW(std::vector<NamedTensor> parameters, const AdamOptions& options)
    : AdamW(OneGroup(std::move(parameters)), options) {}

void Adam::Update(const FlatGroup& flat, double learning_rate, double weight_decay) {
  kernels::AdamStep(flat.range(), flat.state(0), flat.state(1),
                    {.learning_rate = learning_rate,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .epsilon = options_.epsilon,
                     .weight_decay = weight_decay,
                     .decoupled_weight_decay = decoupled_weight_decay_});
}

}  // namespace ops::optim
