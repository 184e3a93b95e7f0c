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

  // See grad.h.
  bool has_grad() const { return has_grad_; }
  const Tensor& place() const { return place_; }
  void Clear() { has_grad_ = false; }
  void Set(const Tensor& gradient);
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

  WeakTensor self_;
  Tensor place_;
  std::vector<Hook> hooks_;
  int64_t next_hook_id_ = 0;
  int64_t uses_ = 0;
  bool requires_grad_ = true;
  bool has_grad_ = false;
  bool growing_ = false;  // the running Backward has added to the gradient
};

}  // namespace ops
