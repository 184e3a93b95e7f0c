#include "ops/autograd/loss.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using kernels::ElementLoss;

// What the sum of `count` losses is multiplied by. The mean of nothing is NaN, 0 times infinity.
double FactorOf(Reduction reduction, int64_t count) {
  return reduction == Reduction::kMean ? 1.0 / static_cast<double>(count) : 1;
}

void CheckElements(std::string_view function, const Tensor& x, const Tensor& target) {
  RequireSameType(function, x, target);
  if (x.shape() != target.shape()) {
    throw std::invalid_argument(fmt::format("{}: input {} and target {} differ in shape", function,
                                            x.shape().ToString(), target.shape().ToString()));
  }
  RequireFloating(function, x);
}

// A loss whose gradient in the target is that in the input with both exchanged, but for
// `of_target`, which has its own.
Tensor ElementwiseLoss(std::string_view function, ElementLoss kind, ElementLoss of_target,
                       const Tensor& x, const Tensor& target, Reduction reduction,
                       double delta = 1) {
  CheckElements(function, x, target);
  Tensor loss = Tensor::Empty(reduction == Reduction::kNone ? x.shape() : Shape{}, x.options());
  const double factor = FactorOf(reduction, x.num_elements());
  kernels::ElementLossForward(kind, x, target, loss, factor, delta);
  if (!NeedsTape({x, target})) return loss;
  return Record(function, std::move(loss), {x, target},
                [=, x = Saved(x), target = Saved(target)](const Tensor& dloss, Node& node) {
                  const auto backward = [&](GradMeta& input, ElementLoss loss, const Tensor& first,
                                            const Tensor& second) {
                    const auto [place, accumulate] = input.Target();
                    kernels::ElementLossBackward(loss, first, second, dloss, factor, place,
                                                 accumulate, delta);
                  };
                  if (GradMeta* dx = node.input(0)) backward(*dx, kind, x, target);
                  GradMeta* const dtarget = node.input(1);
                  if (dtarget == nullptr) return;
                  if (kind == of_target) {
                    backward(*dtarget, kind, target, x);
                  } else {
                    backward(*dtarget, of_target, x, target);
                  }
                });
}

void CheckCrossEntropy(const Tensor& logits, const Tensor& targets,
                       const CrossEntropyOptions& options) {
  RequireDefined("CrossEntropyLoss", {logits, targets});
  const Shape& shape = logits.shape();
  if (shape.rank() == 0 || !IsFloating(logits.dtype()) || targets.dtype() != DType::kInt64 ||
      targets.shape() != Shape(shape.dims().first(shape.rank() - 1)) ||
      targets.device() != logits.device()) {
    throw std::invalid_argument(fmt::format(
        "CrossEntropyLoss: expected floating point logits [..., classes] and int64 targets [...], "
        "got {} and {}",
        logits.Describe(), targets.Describe()));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw std::invalid_argument(fmt::format(
        "CrossEntropyLoss: label_smoothing is {}, expected 0 to 1", options.label_smoothing));
  }
}

}  // namespace

Tensor MseLoss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return ElementwiseLoss("MseLoss", ElementLoss::kSquared, ElementLoss::kSquared, x, target,
                         reduction);
}

Tensor L1Loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return ElementwiseLoss("L1Loss", ElementLoss::kAbsolute, ElementLoss::kAbsolute, x, target,
                         reduction);
}

Tensor HuberLoss(const Tensor& x, const Tensor& target, double delta, Reduction reduction) {
  if (!(delta > 0)) {
    throw std::invalid_argument(fmt::format("HuberLoss: delta is {}, expected more than 0", delta));
  }
  return ElementwiseLoss("HuberLoss", ElementLoss::kHuber, ElementLoss::kHuber, x, target,
                         reduction, delta);
}

Tensor BceWithLogitsLoss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return ElementwiseLoss("BceWithLogitsLoss", ElementLoss::kLogistic, ElementLoss::kLogisticTarget,
                         x, target, reduction);
}

Tensor CrossEntropyLoss(const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options) {
  CheckCrossEntropy(logits, targets, options);
  const int64_t rows = targets.num_elements(), classes = logits.dim(-1);
  const kernels::CrossEntropyParameters parameters = {options.ignore_index,
                                                      options.label_smoothing};
  const double factor =
      FactorOf(options.reduction, kernels::CountTargets(targets, classes, options.ignore_index));
  const bool one_each = options.reduction == Reduction::kNone;
  Tensor loss = Tensor::Empty(one_each ? targets.shape() : Shape{}, logits.options());
  const Tensor log_sums = Tensor::Empty(
      {rows},
      {logits.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, logits.device()});
  const Tensor matrix = logits.View({rows, classes});
  kernels::CrossEntropyForward(matrix, targets, loss, log_sums, factor, parameters);
  if (!NeedsTape({logits})) return loss;
  return Record("CrossEntropyLoss", std::move(loss), {logits},
                [=](const Tensor& dloss, Node& node) {
                  const auto [place, accumulate] = node.input(0)->Target();
                  kernels::CrossEntropyBackward(matrix, targets, log_sums, dloss, factor,
                                                place.View(matrix.shape()), accumulate, parameters);
                });
}

}  // namespace ops
