#include "ddp/replicated/hooks/local_sgd.h"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "ddp/replicated/hooks/step_counter.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

// elements *= factor, rounded once.
void Multiply(const ops::Tensor& tensor, double factor) {
  ops::Dispatch(tensor.dtype(), [&]<class T>() {
    for (T& value : tensor.elements<T>()) {
      if constexpr (sizeof(T) == 2) {
        value = T(static_cast<float>(static_cast<float>(value) * factor));
      } else {
        value = static_cast<T>(value * factor);
      }
    }
  });
}

}  // namespace

CommunicationHook LocalSgd(const LocalSgdOptions& options, CommunicationHook inner) {
  return [start_step = options.start_step, inner = std::move(inner),
          steps = std::make_shared<StepCounter>(options.first_step)](ProcessGroup& group,
                                                                     const GradientBucket& bucket) {
    CheckGradients("local", bucket);
    if (steps->StepOf(bucket) < start_step) return inner(group, bucket);
    // A scale of 0 leaves nothing to restore.
    if (bucket.scale != 0) Multiply(bucket.gradients, 1 / bucket.scale);
    return DoneWork();
  };
}

PeriodicAverager::PeriodicAverager(std::vector<ops::NamedTensor> parameters, ProcessGroup& group,
                                   const PeriodicAveragerOptions& options)
    : parameters_(std::move(parameters)),
      group_(group),
      options_(options),
      num_steps_(options.first_step) {
  if (options.period < 1) {
    throw std::invalid_argument(
        fmt::format("parameters can't be averaged every {} steps", options.period));
  }
}

void PeriodicAverager::Step() {
  const int64_t since = num_steps_++ - options_.warm_up_steps;
  if (since >= 0 && since % options_.period == 0) Average();
}

void PeriodicAverager::Average() {
  const auto averaged = group_.Coalesce([&] {
    for (const auto& [name, parameter] : parameters_) {
      if (ops::RequiresGrad(parameter)) group_.AllReduce(BufferOf(parameter), ReduceOp::kAverage);
    }
  });
  averaged->Wait();
}

}  // namespace ddp
