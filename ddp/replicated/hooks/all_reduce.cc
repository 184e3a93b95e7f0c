#include "ddp/replicated/hooks/all_reduce.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ddp {

std::shared_ptr<Work> AllReduceGradients(ProcessGroup& group, const GradientBucket& bucket) {
  return group.AllReduce(BufferOf(bucket.gradients), ReduceOp::kSum);
}

void CheckGradients(std::string_view hook, const GradientBucket& bucket) {
  const ops::Tensor& gradients = bucket.gradients;
  if (ops::IsFloating(gradients.dtype()) && gradients.device().is_cpu()) return;
  throw std::invalid_argument(
      fmt::format("communication hook {} takes floating point gradients in CPU memory, got {}",
                  hook, gradients.Describe()));
}

std::shared_ptr<Work> DoneWork() {
  class Done : public Work {
   public:
    void Wait() override {}
    bool IsDone() override { return true; }
  };
  return std::make_shared<Done>();
}

}  // namespace ddp
