#include "ops/cpu/optimizer.h"

#include <cmath>

#include "ops/cpu/isa.h"
#include "ops/cpu/optimizer_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 32768;

template <class T>
const OptimizerKernels<T>& Kernels() {
  const OptimizerKernelTable& table =
      ForIsa(baseline::kOptimizerKernels, avx2::kOptimizerKernels, avx512::kOptimizerKernels);
  if constexpr (std::is_same_v<T, float>) {
    return table.float32;
  } else {
    return table.float64;
  }
}

Momentum MomentumOf(const SgdStepOptions& options) {
  if (options.momentum == 0) return Momentum::kNone;
  return options.first_step ? Momentum::kFirstStep : Momentum::kLater;
}

WeightDecay WeightDecayOf(const AdamStepOptions& options) {
  if (options.weight_decay == 0) return WeightDecay::kNone;
  return options.decoupled_weight_decay ? WeightDecay::kDecoupled : WeightDecay::kCoupled;
}

}  // namespace

void SgdStep(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
             const SgdStepOptions& options) {
  DispatchFloat("SGD", parameter.dtype(), [&]<class T>() {
    const Momentum momentum = MomentumOf(options);
    const SgdArguments<T> arguments = {
        .parameter = parameter.data<T>(),
        .gradient = gradient.data<T>(),
        .momentum_buffer = momentum == Momentum::kNone ? nullptr : momentum_buffer.data<T>(),
        .learning_rate = static_cast<T>(options.learning_rate),
        .momentum = static_cast<T>(options.momentum),
        .weight_decay = static_cast<T>(options.weight_decay),
    };
    const auto kernel = Kernels<T>().sgd[static_cast<int>(momentum)][options.weight_decay != 0];
    ParallelFor(parameter.num_elements(), kChunk,
                [&](int64_t begin, int64_t end) { kernel(arguments, begin, end); });
  });
}

void AdamStep(const Tensor& parameter, const Tensor& gradient, const Tensor& first_moment,
              const Tensor& second_moment, const AdamStepOptions& options) {
  const double correction1 = 1 - std::pow(options.beta1, options.step);
  const double correction2 = 1 - std::pow(options.beta2, options.step);
  DispatchFloat("Adam", parameter.dtype(), [&]<class T>() {
    const AdamArguments<T> arguments = {
        .parameter = parameter.data<T>(),
        .gradient = gradient.data<T>(),
        .first_moment = first_moment.data<T>(),
        .second_moment = second_moment.data<T>(),
        .beta1 = static_cast<T>(options.beta1),
        .one_minus_beta1 = static_cast<T>(1 - options.beta1),
        .beta2 = static_cast<T>(options.beta2),
        .one_minus_beta2 = static_cast<T>(1 - options.beta2),
        .step_size = static_cast<T>(options.learning_rate / correction1),
        .root_correction = static_cast<T>(std::sqrt(correction2)),
        .epsilon = static_cast<T>(options.epsilon),
        .weight_decay = static_cast<T>(options.weight_decay),
        .keep = static_cast<T>(1 - options.learning_rate * options.weight_decay),
    };
    const auto kernel = Kernels<T>().adam[static_cast<int>(WeightDecayOf(options))];
    ParallelFor(parameter.num_elements(), kChunk,
                [&](int64_t begin, int64_t end) { kernel(arguments, begin, end); });
  });
}

}  // namespace ops::cpu
