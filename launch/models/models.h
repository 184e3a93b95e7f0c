// The trainer's models, made by name, each with the loss that its task has.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "launch/models/catalog.h"
#include "ops/nn/layers.h"
#include "ops/nn/module.h"
#include "ops/tensor/tensor.h"

namespace launch {

// Layers of the given widths with ReLU between them, parameters "0.weight", "0.bias", "2.weight",
// ... as in PyTorch's Sequential. Inputs of any shape are flattened but for the batch.
class Mlp : public ops::nn::Sequential {
 public:
  Mlp(const std::vector<int64_t>& widths, ops::Generator& generator);
  ops::Tensor Forward(const ops::Tensor& x) override;
};

// A new model of the kind. Initial values depend on the seed alone.
std::unique_ptr<ops::nn::Module> MakeModel(const ModelInfo& info, const ModelOptions& options,
                                           uint64_t seed);

// Outputs and targets to a scalar, the mean over the batch.
using Loss = ops::Tensor (*)(const ops::Tensor& outputs, const ops::Tensor& targets);
Loss LossOf(Task task);

}  // namespace launch
