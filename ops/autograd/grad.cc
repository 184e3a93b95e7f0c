#include "ops/autograd/grad.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "ops/autograd/leaf.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

// Null for a tensor without a gradient of its own.
Leaf* FindLeaf(const Tensor& tensor) {
  if (!tensor.defined() || tensor.meta() == nullptr) return nullptr;
  auto* meta = static_cast<GradMeta*>(tensor.meta());
  return meta->AsNode() != nullptr ? nullptr : static_cast<Leaf*>(meta);
}

Leaf& RequireLeaf(std::string_view function, const Tensor& tensor) {
  if (Leaf* leaf = FindLeaf(tensor)) return *leaf;
  throw std::invalid_argument(fmt::format("{}: {} keeps no gradient; SetRequiresGrad makes it",
                                          function, tensor.Describe()));
}

void RequireAlike(std::string_view function, const Tensor& leaf, const Tensor& gradient) {
  if (gradient.defined() && gradient.shape() == leaf.shape() && gradient.dtype() == leaf.dtype() &&
      gradient.device() == leaf.device()) {
    return;
  }
  throw std::invalid_argument(fmt::format("{}: a gradient of {} can't be {}", function,
                                          leaf.Describe(), gradient.Describe()));
}

}  // namespace

const Tensor& SetRequiresGrad(const Tensor& tensor, bool requires_grad) {
  if (Leaf* leaf = FindLeaf(tensor)) {
    leaf->set_requires_grad(requires_grad);
    return tensor;
  }
  if (!tensor.defined() || !IsFloating(tensor.dtype())) {
    throw std::invalid_argument(fmt::format(
        "SetRequiresGrad: only floating point tensors have gradients, not {}", tensor.Describe()));
  }
  if (tensor.meta() != nullptr) {
    throw std::invalid_argument(
        fmt::format("SetRequiresGrad: {} was computed by {} and is no leaf; Detach() it first",
                    tensor.Describe(), static_cast<GradMeta*>(tensor.meta())->AsNode()->name()));
  }
  if (requires_grad) tensor.set_meta(std::make_shared<Leaf>(tensor));
  return tensor;
}

bool RequiresGrad(const Tensor& tensor) {
  return tensor.defined() && tensor.meta() != nullptr &&
         static_cast<const GradMeta*>(tensor.meta())->requires_grad();
}

Tensor Grad(const Tensor& leaf) {
  const Leaf* found = FindLeaf(leaf);
  return found != nullptr && found->has_grad() ? found->place() : Tensor();
}

void ClearGrad(const Tensor& leaf) {
  if (Leaf* found = FindLeaf(leaf)) found->Clear();
}

void SetGrad(const Tensor& leaf, const Tensor& gradient) {
  Leaf& found = RequireLeaf("SetGrad", leaf);
  RequireAlike("SetGrad", leaf, gradient);
  found.Set(gradient);
}

void PlaceGrad(const Tensor& leaf, const Tensor& place) {
  Leaf& found = RequireLeaf("PlaceGrad", leaf);
  if (place.defined()) RequireAlike("PlaceGrad", leaf, place);
  found.Move(place);
}

Tensor GradPlace(const Tensor& leaf) {
  const Leaf* found = FindLeaf(leaf);
  return found != nullptr ? found->place() : Tensor();
}

int64_t AddGradHook(const Tensor& leaf, GradHook hook) {
  return RequireLeaf("AddGradHook", leaf).AddHook(std::move(hook));
}

void RemoveGradHook(const Tensor& leaf, int64_t id) {
  RequireLeaf("RemoveGradHook", leaf).RemoveHook(id);
}

NoGradGuard::NoGradGuard() : previous_(SetTapeMode(TapeMode::kOff)) {}
NoGradGuard::~NoGradGuard() { SetTapeMode(previous_); }

}  // namespace ops
