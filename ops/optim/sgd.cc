#include "ops/optim/sgd.h"

#include <stdexcept>
#include <utility>

#include "ops/optim/kernels.h"

namespace ops::optim {
namespace {

constexpr std::string_view kStateNames[] = {"momentum_buffer"};

}  // namespace

Sgd::Sgd(std::vector<NamedTensor> parameters, const SgdOptions& options)
    : Sgd(OneGroup(std::move(parameters)), options) {}

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), options.learning_rate, options.weight_decay,
                std::span(kStateNames, options.momentum == 0 ? 0 : 1)),
      options_(options) {
  NotNegative("momentum", options.momentum);
  if (options.nesterov && options.momentum == 0) {
    throw std::invalid_argument("nesterov needs a momentum above 0, got 0");
  }
}

void Sgd::Update(const FlatGroup& flat, double learning_rate, double weight_decay) {
  kernels::SgdStep(flat.range(), flat.state(0),
                   {.learning_rate = learning_rate,
                    .momentum = options_.momentum,
                    .weight_decay = weight_decay,
                    .nesterov = options_.nesterov});
}

}  // namespace ops::optim
