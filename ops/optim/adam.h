// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019). For each parameter p of
// gradient g, at its t-th step, from 1:
//
//   Adam: g += weight_decay p          AdamW: p -= learning_rate weight_decay p
//   m = beta1 m + (1 - beta1) g
//   v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// Of a sparse gradient (optimizer.h) only the rows that it has take part; t counts the steps of the
// whole table. This is PyTorch's SparseAdam, except that it adds epsilon to sqrt(v), and this one,
// as for dense gradients, to sqrt(v / (1 - beta2^t)).
#pragma once

#include <vector>

#include "ops/optim/optimizer.h"

namespace ops::optim {

struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// Its state: "exp_avg" (m) and "exp_avg_sq" (v).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<NamedTensor> parameters, const AdamOptions& options = {});
  explicit Adam(std::vector<ParameterGroup> groups, const AdamOptions& options = {});

 protected:
  Adam(std::vector<ParameterGroup> groups, const AdamOptions& options, bool decoupled_weight_decay);

 private:
  void Update(const FlatGroup& flat, double learning_rate, double weight_decay) override;
  SparseSteps sparse_steps() const override { return SparseSteps::kRows; }

  AdamOptions options_;
  bool decoupled_weight_decay_;
};

class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<NamedTensor> parameters,
                 const AdamOptions& options = {.weight_decay = 0.01});
  explicit AdamW(std::vector<ParameterGroup> groups,
                 const AdamOptions& options = {.weight_decay = 0.01});
};

}  // namespace ops::optim
