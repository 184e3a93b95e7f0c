// Activation checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost"):
// memory for time.
//
//   for (auto& block : blocks) {
//     x = Checkpoint([&](const Tensor& x) { return block.Forward(x); }, x);
//   }
//
// Of each block only the input is kept; what the block computes between is computed again in
// Backward, when the block's turn comes, and goes with it.
#pragma once

#include <functional>

#include "ops/tensor/tensor.h"

namespace ops {

// function(x). Backward runs `function` a second time and goes back through that run; gradients are
// those without Checkpoint, bit for bit: of x, of parameters, of tensors that `function` captured.
// x needn't require a gradient. Checkpoints may lie inside each other.
//
// The second run has the dropout masks of the first, and batch norm's running statistics move in
// the first run only; a function with other effects, or random numbers of its own, asks
// recomputation.h. What `function` uses must live, unchanged, until Backward: it is copied, what it
// refers to isn't.
//
// Hooks of a leaf that `function` uses run when its way back is done, in the order that they would
// have without. What the second run throws, Backward throws, as where any function throws.
Tensor Checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& x);

}  // namespace ops
