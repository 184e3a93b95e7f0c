#include "ops/cpu/optimizer.h"

#include <cmath>

#include "ops/cpu/isa.h"
#include "ops/cpu/optimizer_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 32768;

const OptimizerKernels& Kernels(DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kOptimizerKernels, avx2::kOptimizerKernels, avx512::kOptimizerKernels);
  return kernels[static_cast<int>(dtype)];
}

// Calls body(part, step) for parts of the range, over the threads.
template <class Body>
void ForEachStepPart(const FlatRange& range, const Tensor& first_state, const Tensor& second_state,
                     Body body) {
  const int64_t size = SizeOf(range.dtype()), state_size = SizeOf(StateDType(range.dtype()));
  const auto at = [](std::byte* data, int64_t offset) {
    return data == nullptr ? nullptr : data + offset;
  };
  std::byte* const first = first_state.defined() ? first_state.raw_data() : nullptr;
  std::byte* const second = second_state.defined() ? second_state.raw_data() : nullptr;
  ParallelFor(range.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    range.ForEachPart(begin, end, [&](const FlatSegment& segment, int64_t from, int64_t to) {
      const int64_t state = (segment.state_begin + from) * state_size;
      body(StepPart{.count = to - from,
                    .parameter = segment.parameter + from * size,
                    .gradient = at(segment.gradient, from * size),
                    .states = {at(first, state), at(second, state)}},
           segment.step);
    });
  });
}

WeightDecay WeightDecayOf(const AdamStepOptions& options) {
  if (options.weight_decay == 0) return WeightDecay::kNone;
  return options.decoupled_weight_decay ? WeightDecay::kDecoupled : WeightDecay::kCoupled;
}

AdamConstants ConstantsOf(const AdamStepOptions& options, int64_t step) {
  const double correction1 = 1 - std::pow(options.beta1, step);
  const double correction2 = 1 - std::pow(options.beta2, step);
  return {
      .beta1 = options.beta1,
      .beta2 = options.beta2,
      .step_size = options.learning_rate / correction1,
      .root_correction = std::sqrt(correction2),
      .epsilon = options.epsilon,
      .weight_decay = options.weight_decay,
      .keep = 1 - options.learning_rate * options.weight_decay,
  };
}

}  // namespace

void SgdStep(const FlatRange& range, const Tensor& momentum_buffer, const SgdStepOptions& options) {
  const Momentum momentum = options.momentum == 0 ? Momentum::kNone
                            : options.nesterov    ? Momentum::kNesterov
                                                  : Momentum::kPlain;
  const auto kernel =
      Kernels(range.dtype()).sgd[static_cast<int>(momentum)][options.weight_decay != 0];
  const SgdConstants constants = {.learning_rate = options.learning_rate,
                                  .momentum = options.momentum,
                                  .weight_decay = options.weight_decay};
  ForEachStepPart(range, momentum_buffer, {},
                  [&](const StepPart& part, int64_t) { kernel(part, constants); });
}

void AdamStep(const FlatRange& range, const Tensor& first_moment, const Tensor& second_moment,
              const AdamStepOptions& options) {
  if (range.segments().empty()) return;
  const auto kernel = Kernels(range.dtype()).adam[static_cast<int>(WeightDecayOf(options))];
  // Nearly always all parameters have taken as many steps.
  const int64_t usual_step = range.segments().front().step;
  const AdamConstants usual = ConstantsOf(options, usual_step);
  ForEachStepPart(range, first_moment, second_moment, [&](const StepPart& part, int64_t step) {
    kernel(part, step == usual_step ? usual : ConstantsOf(options, step));
  });
}

void LionStep(const FlatRange& range, const Tensor& momentum, const LionStepOptions& options) {
  const auto kernel = Kernels(range.dtype()).lion;
  const LionConstants constants = {.learning_rate = options.learning_rate,
                                   .beta1 = options.beta1,
                                   .beta2 = options.beta2,
                                   .keep = 1 - options.learning_rate * options.weight_decay};
  ForEachStepPart(range, momentum, {},
                  [&](const StepPart& part, int64_t) { kernel(part, constants); });
}

void AverageStep(const FlatRange& range, const Tensor& average, double decay) {
  const auto kernel = Kernels(range.dtype()).average;
  ForEachStepPart(range, average, {}, [&](const StepPart& part, int64_t) { kernel(part, decay); });
}

}  // namespace ops::cpu
