#include "ops/optim/sgd.h"

#include <utility>

#include "ops/autograd/grad.h"
#include "ops/optim/kernels.h"

namespace ops::optim {

Sgd::Sgd(std::vector<NamedTensor> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate),
      options_(options),
      momentum_buffers_(this->parameters().size()) {
  NotNegative("momentum", options.momentum);
  NotNegative("weight_decay", options.weight_decay);
}

void Sgd::Step() {
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& parameter = parameters()[i].tensor;
    const Tensor gradient = Grad(parameter);
    if (!gradient.defined()) continue;
    Tensor& buffer = momentum_buffers_[i];
    const bool first_step = !buffer.defined();
    if (first_step && options_.momentum != 0) {
      buffer = Tensor::Empty(parameter.shape(), parameter.options());
    }
    kernels::SgdStep(parameter, gradient, buffer,
                     {.learning_rate = learning_rate(),
                      .momentum = options_.momentum,
                      .weight_decay = options_.weight_decay,
                      .first_step = first_step});
  }
}

}  // namespace ops::optim
