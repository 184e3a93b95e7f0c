#include "ops/autograd/leaf.h"

#include <utility>

#include "ops/autograd/kernels.h"

namespace ops {

GradTarget Leaf::Target() {
  if (!place_.defined()) place_ = Tensor::Empty(shape(), options());
  growing_ = true;
  return {place_, std::exchange(has_grad_, true)};
}

void Leaf::Add(const Tensor& gradient) {
  const auto [place, accumulate] = Target();
  if (accumulate) {
    kernels::Binary(kernels::BinaryOp::kAdd, place, gradient, place);
  } else {
    place.CopyFrom(gradient);
  }
}

void Leaf::Set(const Tensor& gradient) {
  if (!place_.defined()) place_ = Tensor::Empty(shape(), options());
  if (gradient.raw_data() != place_.raw_data()) place_.CopyFrom(gradient);
  has_grad_ = true;
}

void Leaf::Move(const Tensor& place) {
  if (place.defined()) {
    if (has_grad_) place.CopyFrom(place_);
    place_ = place;
  } else {
    place_ = has_grad_ ? place_.Clone() : Tensor();
  }
}

int64_t Leaf::AddHook(GradHook hook) {
  hooks_.push_back({next_hook_id_, std::move(hook)});
  return next_hook_id_++;
}

void Leaf::RemoveHook(int64_t id) {
  std::erase_if(hooks_, [id](const Hook& hook) { return hook.id == id; });
}

void Leaf::FinishUse() {
  if (--uses_ > 0 || !std::exchange(growing_, false) || hooks_.empty()) return;
  const Tensor self = self_.Lock();
  if (!self.defined()) return;  // nobody has the parameter any more
  for (const Hook& hook : hooks_) hook.call(self);
}

void Leaf::AbandonUse() {
  --uses_;
  if (std::exchange(growing_, false)) has_grad_ = false;
}

}  // namespace ops
