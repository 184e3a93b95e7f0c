// Evaluation: how well a model does on data that it doesn't learn from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ddp/collectives/process_group.h"
#include "ddp/data/dataset.h"
#include "launch/models/models.h"
#include "ops/nn/module.h"

namespace launch {

struct Evaluation {
  double loss = 0;                   // mean over all examples
  std::optional<double> accuracy;    // part of the examples; classification only
  std::optional<double> perplexity;  // exp(loss); language only
};

// "test loss 0.0727  accuracy 98.05 %", with `separator` between.
std::string Describe(const Evaluation& evaluation, std::string_view separator);

// To be called by all ranks: each takes a part of the examples, every example is seen once, and all
// get the same result: nothing where `stops`, asked before each batch, was true on any of them.
// Puts the model, whose parameters are of `precision`, in evaluation mode, and back.
std::optional<Evaluation> Evaluate(
    ops::nn::Module& model, Task task, const ddp::Dataset& data, int64_t batch_size,
    ddp::ProcessGroup& group, ops::DType precision = ops::DType::kFloat32,
    const std::function<bool()>& stops = [] { return false; });

// How many rows of logits[batch, classes] are largest at targets[batch].
int64_t CountCorrect(const ops::Tensor& logits, const ops::Tensor& targets);

}  // namespace launch
