// A tensor whose gradient is kept: a parameter. grad.h is the way to use one.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/autograd/grad.h"
#include "ops/autograd/node.h"
#include "ops/tensor/tensor.h"

namespace ops {

class Leaf final : public GradMeta {
 public:
  explicit Leaf(const Tensor& tensor) : GradMeta(tensor), self_(tensor) {}

  bool requires_grad() const override { return requires_grad_; }
  void set_requires_grad(bool requires_grad) { requires_grad_ = requires_grad; }

  GradTarget Target() override;
  GradTarget TargetOver(const Tensor&) override { return Target(); }
  void Add(const Tensor& gradient) override;
  void AddRows(const Tensor& ids, const Tensor& dy, int64_t padding_id) override;

  // See grad.h.
  bool has_grad() const { return has_grad_; }
  const SparseGradient& sparse() const { return sparse_; }
  bool expects_sparse() const { return expects_sparse_; }
  void set_expects_sparse(bool expects) { expects_sparse_ = expects; }
  const Tensor& place() const { return place_; }
  void Clear();
  void Set(const Tensor& gradient);
  void SetSparse(SparseGradient sparse);
  void Move(const Tensor& place);
  int64_t AddHook(GradHook hook);
  void RemoveHook(int64_t id);

  // For the running Backward: a use of the leaf that it will come to; one that has added its part,
  // after the last of which the hooks run; and one that it won't come to because something threw,
  // which leaves no half sum behind.
  void ExpectUse() { ++uses_; }
  void FinishUse();
  void AbandonUse();

 private:
  struct Hook {
    int64_t id;
    GradHook call;
  };

  void MakeDense();

  WeakTensor self_;
  Tensor place_;
  SparseGradient sparse_;  // while defined, `place_` holds no gradient
  std::vector<Hook> hooks_;
  int64_t next_hook_id_ = 0;
  int64_t uses_ = 0;
  bool requires_grad_ = true;
  bool has_grad_ = false;   // a dense one
  bool is_placed_ = false;  // `place_` was given: the gradient belongs there, and is dense
  bool expects_sparse_ = false;
  bool growing_ = false;  // the running Backward has added to the gradient
};

}  // namespace ops
