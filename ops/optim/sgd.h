// Stochastic gradient descent, with momentum and weight decay. For each parameter p of gradient g:
//
//   g += weight_decay p
//   b = momentum b + g     (b begins as 0; without momentum: b = g)
//   p -= learning_rate b, or with Nesterov's momentum learning_rate (g + momentum b)
#pragma once

#include <vector>

#include "ops/optim/optimizer.h"

namespace ops::optim {

struct SgdOptions {
  double learning_rate = 0.001;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  // needs a momentum
};

// Its state: "momentum_buffer"; nothing without momentum.
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<NamedTensor> parameters, const SgdOptions& options = {});
  explicit Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});

 private:
  void Update(const FlatGroup& flat, double learning_rate, double weight_decay) override;
  SparseSteps sparse_steps() const override {
    return options_.momentum == 0 ? SparseSteps::kRows : SparseSteps::kDense;
  }

  SgdOptions options_;
};

}  // namespace ops::optim
