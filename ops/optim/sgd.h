// Stochastic gradient descent, with momentum and weight decay. For each parameter p of gradient g:
//
//   g += weight_decay p
//   b = g at the first step, later momentum b + g     (without momentum: b = g)
//   p -= learning_rate b
#pragma once

#include <vector>

#include "ops/optim/optimizer.h"

namespace ops::optim {

struct SgdOptions {
  double learning_rate = 0.001;
  double momentum = 0;
  double weight_decay = 0;
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<NamedTensor> parameters, const SgdOptions& options = {});
  void Step() override;

 private:
  SgdOptions options_;
  std::vector<Tensor> momentum_buffers_;  // undefined until the parameter's first step
};

}  // namespace ops::optim
