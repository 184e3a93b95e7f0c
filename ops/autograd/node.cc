#include "ops/autograd/node.h"

#include <algorithm>
#include <vector>

#include "ops/autograd/kernels.h"

namespace ops {
namespace {

thread_local TapeMode tape_mode = TapeMode::kOn;
thread_local std::vector<Tensor>* noted_inputs = nullptr;
thread_local uint64_t next_sequence = 0;

GradMeta* MetaOf(const Tensor& tensor) {
  return tensor.defined() ? static_cast<GradMeta*>(tensor.meta()) : nullptr;
}

bool WantsGrad(const Tensor& tensor) {
  const GradMeta* meta = MetaOf(tensor);
  return meta != nullptr && meta->requires_grad();
}

void Note(InputList inputs) {
  int64_t place = 0;
  for (const Tensor& input : inputs) {
    const auto is_input = [&](const Tensor& noted) { return noted.meta() == input.meta(); };
    if (!WantsGrad(input) || std::ranges::any_of(*noted_inputs, is_input)) continue;
    noted_inputs->insert(noted_inputs->begin() + place++, input);
  }
}

bool IsOnlyOwnerOfNode(const std::shared_ptr<GradMeta>& meta) {
  return meta != nullptr && meta.use_count() == 1 && meta->AsNode() != nullptr;
}

}  // namespace

TapeMode SetTapeMode(TapeMode mode) { return std::exchange(tape_mode, mode); }

ScopedInputNotes::ScopedInputNotes(std::vector<Tensor>& inputs)
    : previous_(std::exchange(noted_inputs, &inputs)) {}

ScopedInputNotes::~ScopedInputNotes() { noted_inputs = previous_; }

bool NeedsTape(InputList inputs) {
  if (tape_mode == TapeMode::kNoted) Note(inputs);
  return tape_mode == TapeMode::kOn && std::ranges::any_of(inputs, WantsGrad);
}

Tensor Saved(const Tensor& tensor) {
  GradMeta* meta = MetaOf(tensor);
  return meta == nullptr || meta->AsNode() == nullptr ? tensor : tensor.Detach();
}

Tensor SavedFor(const Tensor& input, const Tensor& tensor) {
  return WantsGrad(input) ? Saved(tensor) : Tensor();
}

Node::Node(std::string_view name, const Tensor& output, InputList inputs)
    : GradMeta(output), name_(name), sequence_(next_sequence++) {
  for (const Tensor& input : inputs) {
    inputs_.push_back(WantsGrad(input) ? std::static_pointer_cast<GradMeta>(input.shared_meta())
                                       : nullptr);
  }
}

// A tape that no Backward has used up goes with its last node. It may be long, and each node owns
// the ones before it, so they are taken apart here one by one and not by nested destructors.
Node::~Node() {
  std::vector<std::shared_ptr<GradMeta>> doomed;
  const auto take_inputs = [&doomed](Node& node) {
    for (std::shared_ptr<GradMeta>& input : node.inputs_) {
      if (IsOnlyOwnerOfNode(input)) doomed.push_back(std::move(input));
    }
  };
  take_inputs(*this);
  while (!doomed.empty()) {
    const std::shared_ptr<GradMeta> last = std::move(doomed.back());
    doomed.pop_back();
    take_inputs(*last->AsNode());
  }
}

void GradMeta::AddRows(const Tensor& ids, const Tensor& dy, int64_t padding_id) {
  const auto [place, accumulate] = Target();
  kernels::GatherRowsBackward(ids, padding_id, dy, place, accumulate);
}

GradTarget Node::Target() {
  if (!gradient_.defined()) {
    gradient_ = Tensor::Empty(shape(), options());
    return {gradient_, false};
  }
  if (!gradient_.IsSoleOwner()) gradient_ = gradient_.Clone();
  return {gradient_, true};
}

GradTarget Node::TargetOver(const Tensor& dy) {
  if (gradient_.defined() || !dy.IsSoleOwner()) return Target();
  gradient_ = dy;
  return {gradient_, false};
}

void Node::Add(const Tensor& gradient) {
  if (!gradient_.defined()) {
    gradient_ = gradient;
    return;
  }
  const Tensor sum = gradient_.IsSoleOwner() ? gradient_ : Tensor::Empty(shape(), options());
  kernels::Binary(kernels::BinaryOp::kAdd, gradient_, gradient, sum);
  gradient_ = sum;
}

}  // namespace ops
