// Gradients kept within bounds, between Backward and Step:
//
//   Backward(loss);
//   optim::ClipGradNorm(model.Parameters(), 1.0);
//   optimizer.Step();
//
// Parameters without a gradient are passed over; sparse gradients are coalesced first. Sums are in
// float64 and in the order of the parameters, so that the norm doesn't depend on threads, nor on
// where gradients lie.
#pragma once

#include <vector>

#include "ops/tensor/tensor.h"

namespace ops::optim {

// The L2 norm of all gradients together; 0 where there are none.
double GradNorm(const std::vector<NamedTensor>& parameters);

// Scales the gradients by max_norm / (norm + 1e-6) where that is below 1; returns the norm they
// had.
//
// As in PyTorch, a norm that isn't finite is the caller's to see and to act upon, best by leaving
// out the step: after a norm of NaN all gradients are NaN, after one of infinity all that were
// finite are 0. Throws std::invalid_argument for a negative max_norm and for NaN.
double ClipGradNorm(const std::vector<NamedTensor>& parameters, double max_norm);

// Brings every element of the gradients into [-limit, limit]; NaN stays. Throws
// std::invalid_argument for a negative limit and for NaN.
void ClipGradValue(const std::vector<NamedTensor>& parameters, double limit);

// True when no element is NaN or infinite.
bool AllFinite(const Tensor& gradient);

}  // namespace ops::optim
