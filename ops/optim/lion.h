// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms"): steps of one size, in
// the direction of a momentum's sign. It wants a learning rate 3 to 10 times smaller than AdamW's
// and a weight decay as much larger. For each parameter p of gradient g:
//
//   p -= learning_rate (sign(beta1 m + (1 - beta1) g) + weight_decay p)
//   m = beta2 m + (1 - beta2) g
//
// A gradient of NaN makes the parameter NaN. Sparse gradients are refused.
#pragma once

#include <vector>

#include "ops/optim/optimizer.h"

namespace ops::optim {

struct LionOptions {
  double learning_rate = 0.0001;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

// Its state: "exp_avg" (m).
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<NamedTensor> parameters, const LionOptions& options = {});
  explicit Lion(std::vector<ParameterGroup> groups, const LionOptions& options = {});

 private:
  void Update(const FlatGroup& flat, double learning_rate, double weight_decay) override;
  SparseSteps sparse_steps() const override { return SparseSteps::kRefused; }

  LionOptions options_;
};

}  // namespace ops::optim
