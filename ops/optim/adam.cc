#include "ops/optim/adam.h"

#include <utility>

#include "ops/autograd/grad.h"
#include "ops/optim/kernels.h"

namespace ops::optim {

Adam::Adam(std::vector<NamedTensor> parameters, const AdamOptions& options,
           bool decoupled_weight_decay)
    : Optimizer(std::move(parameters), options.learning_rate),
      options_(options),
      decoupled_weight_decay_(decoupled_weight_decay),
      states_(this->parameters().size()) {
  Fraction("beta1", options.beta1);
  Fraction("beta2", options.beta2);
  NotNegative("epsilon", options.epsilon);
  NotNegative("weight_decay", options.weight_decay);
}

Adam::Adam(std::vector<NamedTensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, /*decoupled_weight_decay=*/false) {}

AdamW::AdamW(std::vector<NamedTensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, /*decoupled_weight_decay=*/true) {}

void Adam::Step() {
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& parameter = parameters()[i].tensor;
    const Tensor gradient = Grad(parameter);
    if (!gradient.defined()) continue;
    State& state = states_[i];
    if (state.step++ == 0) {
      state.first_moment = Tensor::Zeros(parameter.shape(), parameter.options());
      state.second_moment = Tensor::Zeros(parameter.shape(), parameter.options());
    }
    kernels::AdamStep(parameter, gradient, state.first_moment, state.second_moment,
                      {.learning_rate = learning_rate(),
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .epsilon = options_.epsilon,
                       .weight_decay = options_.weight_decay,
                       .decoupled_weight_decay = decoupled_weight_decay_,
                       .step = state.step});
  }
}

}  // namespace ops::optim
