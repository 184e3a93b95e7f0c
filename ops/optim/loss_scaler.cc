#include "ops/optim/loss_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ops/autograd/elementwise.h"
#include "ops/autograd/grad.h"
#include "ops/optim/kernels.h"

namespace ops::optim {
namespace {

// Losses are scaled in float32.
constexpr double kMaxScale = std::numeric_limits<float>::max();

void Require(bool holds, std::string_view what, double value, std::string_view expected) {
  if (holds) return;
  throw std::invalid_argument(
      fmt::format("the {} of a loss scaler is {}, expected {}", what, value, expected));
}

void RequireScale(double scale) {
  Require(scale > 0 && scale <= kMaxScale, "scale", scale, "a positive number that float32 holds");
}

double NumberIn(const std::vector<NamedTensor>& state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &NamedTensor::name);
  if (found != state.end()) return found->tensor.Item();
  throw std::invalid_argument(fmt::format("the state of a loss scaler has no '{}'", name));
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(options.initial_scale) {
  RequireScale(options.initial_scale);
  Require(options.growth_factor > 1 && std::isfinite(options.growth_factor), "growth_factor",
          options.growth_factor, "a finite number above 1");
  Require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor",
          options.backoff_factor, "a number between 0 and 1");
  Require(options.growth_interval >= 1, "growth_interval",
          static_cast<double>(options.growth_interval), "at least 1");
}

Tensor LossScaler::Scale(const Tensor& loss) const { return Cast(loss, DType::kFloat32) * scale_; }

bool LossScaler::Unscale(const std::vector<NamedTensor>& parameters) {
  bool finite = true;
  for (const auto& [name, parameter] : parameters) {
    const Tensor gradient = GradElements(parameter);
    if (!gradient.defined()) continue;
    finite = kernels::AllFinite(gradient) && finite;
    kernels::Scale(1 / scale_, gradient, gradient);
  }
  if (seen_ != Seen::kOverflow) seen_ = finite ? Seen::kFinite : Seen::kOverflow;
  return finite;
}

void LossScaler::Update() {
  switch (std::exchange(seen_, Seen::kNothing)) {
    case Seen::kNothing:
      throw std::logic_error("LossScaler::Update: Unscale was not called since the last Update");
    case Seen::kOverflow:
      scale_ *= options_.backoff_factor;
      growth_tracker_ = 0;
      return;
    case Seen::kFinite:
      if (++growth_tracker_ < options_.growth_interval) return;
      growth_tracker_ = 0;
      if (const double grown = scale_ * options_.growth_factor; grown <= kMaxScale) scale_ = grown;
  }
}

std::vector<NamedTensor> LossScaler::StateDict() const {
  return {{"scale", Tensor::Scalar(scale_, {.dtype = DType::kFloat64})},
          {"growth_tracker",
           Tensor::Scalar(static_cast<double>(growth_tracker_), {.dtype = DType::kInt64})}};
}

void LossScaler::LoadStateDict(const std::vector<NamedTensor>& state) {
  const double scale = NumberIn(state, "scale");
  const double tracker = NumberIn(state, "growth_tracker");
  RequireScale(scale);
  Require(tracker >= 0, "growth_tracker", tracker, "at least 0");
  scale_ = scale;
  growth_tracker_ = static_cast<int64_t>(tracker);
}

}  // namespace ops::optim
