#include "ops/autograd/leaf.h"

#include <utility>

#include "ops/autograd/kernels.h"

namespace ops {

GradTarget Leaf::Target() {
  MakeDense();
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

void Leaf::AddRows(const Tensor& ids, const Tensor& dy, int64_t padding_id) {
  if (has_grad_ || is_placed_) return GradMeta::AddRows(ids, dy, padding_id);
  sparse_ = Concatenate(sparse_, RowsOf(ids, dy, padding_id));
  growing_ = true;
}

void Leaf::MakeDense() {
  if (!sparse_.defined()) return;
  if (!place_.defined()) place_ = Tensor::Empty(shape(), options());
  kernels::GatherRowsBackward(sparse_.ids, /*padding_id=*/-1, sparse_.rows, place_,
                              /*accumulate=*/false);
  sparse_ = {};
  has_grad_ = true;
}

void Leaf::Clear() {
  has_grad_ = false;
  sparse_ = {};
}

void Leaf::SetSparse(SparseGradient sparse) {
  Clear();
  sparse_ = std::move(sparse);
}

void Leaf::Set(const Tensor& gradient) {
  sparse_ = {};
  if (!place_.defined()) place_ = Tensor::Empty(shape(), options());
  if (gradient.raw_data() != place_.raw_data()) place_.CopyFrom(gradient);
  has_grad_ = true;
}

void Leaf::Move(const Tensor& place) {
  is_placed_ = place.defined();
  if (place.defined()) {
    MakeDense();
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
  if (std::exchange(growing_, false)) Clear();
}

}  // namespace ops
