#include "ops/autograd/loss.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {

Tensor MseLoss(const Tensor& x, const Tensor& target, Reduction) {
  RequireSameType("MseLoss", x, target);
  if (x.shape() != target.shape()) {
    throw std::invalid_argument(fmt::format("MseLoss: input {} and target {} differ in shape",
                                            x.shape().ToString(), target.shape().ToString()));
  }
  Tensor loss = Tensor::Empty({}, x.options());
  kernels::MseForward(x, target, loss);
  if (!NeedsTape({x, target})) return loss;
  return Record("MseLoss", std::move(loss), {x, target},
                [x = Saved(x), target = Saved(target)](const Tensor& dloss, Node& node) {
                  if (GradMeta* dx = node.input(0)) {
                    const auto [place, accumulate] = dx->Target();
                    kernels::MseBackward(x, target, dloss, place, accumulate);
                  }
                  if (GradMeta* dtarget = node.input(1)) {
                    const auto [place, accumulate] = dtarget->Target();
                    kernels::MseBackward(target, x, dloss, place, accumulate);
                  }
                });
}

Tensor CrossEntropyLoss(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions&) {
  RequireDefined("CrossEntropyLoss", {logits, targets});
  if (logits.shape().rank() != 2 || targets.dtype() != DType::kInt64 ||
      targets.shape() != Shape{logits.dim(0)} || targets.device() != logits.device()) {
    throw std::invalid_argument(fmt::format(
        "CrossEntropyLoss: expected logits [batch, classes] and int64 targets [batch], got {} "
        "and {}",
        logits.Describe(), targets.Describe()));
  }
  Tensor loss = Tensor::Empty({}, logits.options());
  const Tensor log_sums = Tensor::Empty(targets.shape(), logits.options());
  kernels::CrossEntropyForward(logits, targets, loss, log_sums);
  if (!NeedsTape({logits})) return loss;
  return Record("CrossEntropyLoss", std::move(loss), {logits},
                [logits = Saved(logits), targets, log_sums](const Tensor& dloss, Node& node) {
                  const auto [place, accumulate] = node.input(0)->Target();
                  kernels::CrossEntropyBackward(logits, targets, log_sums, dloss, place,
                                                accumulate);
                });
}

}  // namespace ops
