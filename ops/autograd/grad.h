// Gradients: which tensors have one, where it lies, and the walk back that computes them.
//
//   Tensor w = SetRequiresGrad(Tensor::Randn({2, 5}, generator));
//   Tensor loss = MseLoss(Linear(x, w, {}), target);   // leaves a tape behind
//   Backward(loss);                                    // fills Grad(w)
//   ClearGrad(w);                                      // none again, before the next step
//
// A leaf is a tensor whose gradient is kept: SetRequiresGrad was called on it. Gradients of leaves
// add up over Backward calls until they are cleared. A cleared gradient keeps its memory, and the
// next Backward overwrites it, so that clearing costs nothing and, where a gradient lies inside a
// communication bucket, it stays there.
//
// A gradient is dense, unless all of it came from Embedding with `sparse`: then it is sparse, and
// Grad(leaf) is undefined. A dense part, as of tied weights, makes it dense, and so does PlaceGrad:
// what lies inside a bucket is dense.
//
// Threads: a tape belongs to the thread that runs the forward pass and Backward.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/autograd/sparse_gradient.h"
#include "ops/tensor/tensor.h"

namespace ops {

enum class TapeMode : uint8_t;  // node.h

// Makes `tensor` a leaf with a gradient (or, with false, one without: a frozen parameter).
// Returns it. Throws std::invalid_argument for a dtype that isn't floating point, and for a tensor
// that an operation computed.
const Tensor& SetRequiresGrad(const Tensor& tensor, bool requires_grad = true);
// True for such a leaf and for everything computed from one outside a NoGradGuard.
bool RequiresGrad(const Tensor& tensor);

// The gradient of a leaf; undefined when there is none yet, and when it is sparse.
Tensor Grad(const Tensor& leaf);
// "None yet". Keeps memory.
void ClearGrad(const Tensor& leaf);
// Puts `gradient` (of the leaf's shape and dtype) in the place of the leaf's gradient. With
// GradPlace(leaf) itself, what is there becomes the gradient.
void SetGrad(const Tensor& leaf, const Tensor& gradient);
// From now on the leaf's gradient lies in `place` (the leaf's shape and dtype; contents ignored
// unless the leaf has a gradient, which is copied there). For gradients inside buckets. An
// undefined `place`: in memory of its own again.
void PlaceGrad(const Tensor& leaf, const Tensor& place);
// The memory that PlaceGrad or the first Backward gave the gradient, whether or not there is a
// gradient; undefined before either.
Tensor GradPlace(const Tensor& leaf);

// The gradient of a leaf where it is sparse; undefined otherwise. Shares memory with the leaf.
SparseGradient SparseGrad(const Tensor& leaf);
// The same, after coalescing it in place: optimizers and clipping look at it so.
SparseGradient CoalesceGrad(const Tensor& leaf);
// Makes `sparse` the leaf's gradient, in the place of any other; the tensors are kept, not copied.
// Throws std::invalid_argument unless the leaf is a table [count, width], the rows [n, width] of
// its dtype, and the ids [n] inside [0, count).
void SetSparseGrad(const Tensor& leaf, const SparseGradient& sparse);
// The elements of the gradient, for what looks at each once: Grad(leaf), or the rows of the
// coalesced sparse one; undefined where there is neither.
Tensor GradElements(const Tensor& leaf);

// A mark for whoever plans where gradients lie: this leaf's will be sparse, and wants no place.
void ExpectSparseGrad(const Tensor& leaf, bool expects = true);
bool ExpectsSparseGrad(const Tensor& leaf);

// Calls `hook` in each Backward as soon as the leaf's gradient is complete: all uses of the leaf
// that the loss depends on have added their part. Not called when none has. Hooks run in the order
// they were added, on the thread of Backward, and may throw: Backward then throws the same. They
// leave no tape, and must not add or remove hooks of their leaf. Returns an id for RemoveGradHook.
using GradHook = std::function<void(const Tensor& leaf)>;
int64_t AddGradHook(const Tensor& leaf, GradHook hook);
void RemoveGradHook(const Tensor& leaf, int64_t id);

// To be called from a hook: `callback` runs once, when the running Backward is done, before it
// returns; not when something throws. Where one Backward runs inside another (in a hook, or that of
// a Checkpoint), the outermost counts. Throws std::logic_error outside Backward.
void OnBackwardEnd(std::function<void()> callback);

// Computes the gradients of all leaves that `loss` depends on. `loss` has one element, or
// `gradient` (its shape) is given. The tape is used up, and freed as the walk goes: a second
// Backward through it throws std::logic_error. Throws std::invalid_argument when `loss` depends on
// no leaf.
//
// When a kernel, a hook or a callback throws, Backward throws the same. Leaves whose gradient was
// complete keep it; those to which only a part was added have none, whatever they had before; and
// the next Backward, through a new tape, finds nothing left over.
void Backward(const Tensor& loss, const Tensor& gradient = {});

// While one lives, operations on this thread leave no tape: evaluation, optimizer steps.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  TapeMode previous_;
};

}  // namespace ops
