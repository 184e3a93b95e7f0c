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

void RequireFitting(const Tensor& leaf, const SparseGradient& sparse) {
  const auto& [ids, rows] = sparse;
  const bool is_alike = ids.defined() && rows.defined() && leaf.shape().rank() == 2 &&
                        ids.dtype() == DType::kInt64 && ids.shape().rank() == 1 &&
                        rows.dtype() == leaf.dtype() && rows.device() == leaf.device() &&
                        rows.shape() == Shape{ids.dim(0), leaf.dim(1)};
  if (!is_alike) {
    throw std::invalid_argument(
        fmt::format("SetSparseGrad: a gradient of {} can't have ids {} and rows {}",
                    leaf.Describe(), ids.Describe(), rows.Describe()));
  }
  for (const int64_t id : ids.elements<int64_t>()) {
    if (id >= 0 && id < leaf.dim(0)) continue;
    throw std::invalid_argument(
        fmt::format("SetSparseGrad: the id {} is no row of {}", id, leaf.Describe()));
  }
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

SparseGradient SparseGrad(const Tensor& leaf) {
  const Leaf* found = FindLeaf(leaf);
  return found != nullptr ? found->sparse() : SparseGradient();
}

SparseGradient CoalesceGrad(const Tensor& leaf) {
  Leaf* found = FindLeaf(leaf);
  if (found == nullptr || !found->sparse().defined()) return {};
  found->SetSparse(Coalesce(found->sparse()));
  return found->sparse();
}

void SetSparseGrad(const Tensor& leaf, const SparseGradient& sparse) {
  Leaf& found = RequireLeaf("SetSparseGrad", leaf);
  RequireFitting(leaf, sparse);
  found.SetSparse(sparse);
}

Tensor GradElements(const Tensor& leaf) {
  const SparseGradient sparse = CoalesceGrad(leaf);
  return sparse.defined() ? sparse.rows : Grad(leaf);
}

void ExpectSparseGrad(const Tensor& leaf, bool expects) {
  RequireLeaf("ExpectSparseGrad", leaf).set_expects_sparse(expects);
}

bool ExpectsSparseGrad(const Tensor& leaf) {
  const Leaf* found = FindLeaf(leaf);
  return found != nullptr && found->expects_sparse();
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
