#include "ops/nn/activations.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "ops/autograd/rearrange.h"
#include "ops/autograd/recomputation.h"
#include "ops/autograd/softmax.h"

namespace ops::nn {
namespace {

thread_local const ScopedBatchPosition* current_position = nullptr;

int64_t ElementsPerExample(const Tensor& x) {
  if (x.shape().rank() == 0 || x.dim(0) == 0) return 0;
  return x.num_elements() / x.dim(0);
}

}  // namespace

Tensor Relu::Forward(const Tensor& x) { return ops::Relu(x); }
Tensor LeakyRelu::Forward(const Tensor& x) { return ops::LeakyRelu(x, negative_slope_); }
Tensor Gelu::Forward(const Tensor& x) { return ops::Gelu(x, approximate_); }
Tensor Silu::Forward(const Tensor& x) { return ops::Silu(x); }
Tensor Sigmoid::Forward(const Tensor& x) { return ops::Sigmoid(x); }
Tensor Tanh::Forward(const Tensor& x) { return ops::Tanh(x); }
Tensor Softmax::Forward(const Tensor& x) { return ops::Softmax(x, dim_); }
Tensor LogSoftmax::Forward(const Tensor& x) { return ops::LogSoftmax(x, dim_); }
Tensor Flatten::Forward(const Tensor& x) { return ops::Flatten(x); }

ScopedBatchPosition::ScopedBatchPosition(uint64_t step, int64_t first_example)
    : step_(step),
      first_example_(first_example),
      previous_(std::exchange(current_position, this)) {}

ScopedBatchPosition::~ScopedBatchPosition() { current_position = previous_; }

const ScopedBatchPosition* ScopedBatchPosition::Current() { return current_position; }

Dropout::Dropout(double probability, Generator* generator)
    : probability_(probability),
      seed_((generator != nullptr ? *generator : Generator::ForThisThread()).NextUint64()) {
  if (probability >= 0 && probability <= 1) return;
  throw std::invalid_argument(
      fmt::format("Dropout: the probability is {}, expected one in [0, 1]", probability));
}

Tensor Dropout::Forward(const Tensor& x) {
  if (!training() || probability_ == 0) return x;
  const ScopedBatchPosition* position = ScopedBatchPosition::Current();
  const uint64_t step = DrawOnce([&] { return position ? position->step() : calls_++; });
  const auto first_example =
      static_cast<int64_t>(DrawOnce([&] { return position ? position->first_example() : 0; }));
  return ops::Dropout(
      x, probability_,
      {.seed = seed_, .step = step, .first_position = first_example * ElementsPerExample(x)});
}

}  // namespace ops::nn
