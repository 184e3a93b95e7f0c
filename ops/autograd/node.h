// The tape: for whoever adds a differentiable function. functions.h is for whoever calls one.
//
// A function computes its output with kernels and, when an input requires a gradient, hangs a Node
// on the output: the way back, as a closure that keeps what it needs.
//
//   Tensor Relu(const Tensor& x) {
//     Tensor y = Tensor::Empty(x.shape(), x.options());
//     kernels::Activate(kernels::Activation::kRelu, x, y);
//     if (!NeedsTape({x})) return y;
//     return Record("Relu", y, {x}, [y = Saved(y)](const Tensor& dy, Node& node) {
//       const auto [place, accumulate] = node.input(0)->TargetOver(dy);
//       kernels::ActivateBackward(kernels::Activation::kRelu, y, dy, place, accumulate);
//     });
//   }
//
// Every input that requires a gradient gets its part exactly once, by Target(), TargetOver() or
// Add(); node.input(i) is null for one that requires none. What a
// closure keeps goes through Saved(), so that data doesn't hold the tape that made it, and is freed
// as soon as the closure has run. Nodes have one output. Backward (grad.h) visits them in the
// reverse order of their making, which is fixed, so sums of gradients have a fixed order.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ops/tensor/small_blocks.h"
#include "ops/tensor/tensor.h"

namespace ops {

class Node;

// Where to write a gradient, and whether to add to what is there or to overwrite it.
struct GradTarget {
  const Tensor& tensor;
  bool accumulate;
};

// What hangs on a tensor that requires a gradient: a Leaf (leaf.h) or the Node that computed it.
class GradMeta : public TensorMeta {
 public:
  // The place of the gradient, for a kernel to write into. The caller writes all of it.
  virtual GradTarget Target() = 0;
  // The same for a kernel that may write its output over its input: where nobody else needs `dy`,
  // of this gradient's shape, its memory is the place.
  virtual GradTarget TargetOver(const Tensor& dy) = 0;
  // Adds a gradient that exists already. `gradient` must not be changed afterwards: where it comes
  // first, no copy is made.
  virtual void Add(const Tensor& gradient) = 0;
  // Adds dy[i] to the gradient's row ids[i], for all i: ids [...] (int64) inside the table
  // [count, width] that this is of, dy [..., width]. The row `padding_id` (negative: none) gets no
  // part. A Leaf may keep such a gradient sparse.
  virtual void AddRows(const Tensor& ids, const Tensor& dy, int64_t padding_id);

  virtual Node* AsNode() { return nullptr; }
  virtual bool requires_grad() const = 0;
  const Shape& shape() const { return shape_; }
  const TensorOptions& options() const { return options_; }

 protected:
  explicit GradMeta(const Tensor& tensor) : shape_(tensor.shape()), options_(tensor.options()) {}

 private:
  Shape shape_;
  TensorOptions options_;
};

// Inputs of a function, some perhaps undefined: {x, weight, bias}, or a list that a program made.
class InputList {
 public:
  using Input = std::reference_wrapper<const Tensor>;

  InputList(std::initializer_list<Input> inputs) : inputs_(inputs.begin(), inputs.size()) {}
  explicit InputList(std::span<const Input> inputs) : inputs_(inputs) {}

  auto begin() const { return inputs_.begin(); }
  auto end() const { return inputs_.end(); }

 private:
  std::span<const Input> inputs_;
};

class Node : public GradMeta {
 public:
  ~Node() override;

  // The function's name, for messages.
  std::string_view name() const { return name_; }
  // Where the gradient of the i-th input goes; null when that input needs none.
  GradMeta* input(int i) const { return inputs_[i].get(); }

  GradTarget Target() override;
  GradTarget TargetOver(const Tensor& dy) override;
  void Add(const Tensor& gradient) override;
  Node* AsNode() override { return this; }
  bool requires_grad() const override { return true; }

 protected:
  Node(std::string_view name, const Tensor& output, InputList inputs);

 private:
  friend class BackwardWalk;

  // Computes the inputs' gradients from the output's, `dy`, and frees what was kept for that.
  virtual void Run(const Tensor& dy) = 0;

  std::string_view name_;
  absl::InlinedVector<std::shared_ptr<GradMeta>, 3> inputs_;
  uint64_t sequence_;    // counts the nodes that this thread has made
  Tensor gradient_;      // the sum of what has arrived, while Backward runs; where its
                         // memory has other owners, it isn't ours to change
  bool listed_ = false;  // by the running Backward
  bool used_ = false;
};

template <class Closure>
class ClosureNode final : public Node {
 public:
  ClosureNode(std::string_view name, const Tensor& output, InputList inputs, Closure&& closure)
      : Node(name, output, inputs), closure_(std::move(closure)) {}

 private:
  void Run(const Tensor& dy) override {
    (*closure_)(dy, *this);
    closure_.reset();
  }

  std::optional<Closure> closure_;
};

// True when one of the inputs requires a gradient and the tape is on. Every function asks, also
// where it could know: see ScopedInputNotes.
bool NeedsTape(InputList inputs);

// Hangs a node on `output`, and returns it. `name` must be a literal; `backward(dy, node)` is
// called at most once.
template <class Closure>
Tensor Record(std::string_view name, Tensor output, InputList inputs, Closure backward) {
  output.set_meta(std::allocate_shared<ClosureNode<Closure>>(
      SmallBlockAllocator<ClosureNode<Closure>>(), name, output, inputs, std::move(backward)));
  return output;
}

// A handle on the tensor's elements that doesn't keep the tape behind it alive.
Tensor Saved(const Tensor& tensor);
// The same for what only the gradient of `input` needs: undefined where `input` requires none.
Tensor SavedFor(const Tensor& input, const Tensor& tensor);

// What operations of this thread do about the tape.
enum class TapeMode : uint8_t {
  kOn,
  kOff,    // a NoGradGuard lives
  kNoted,  // leave none, but a ScopedInputNotes learns on what it would have hung
};
// Returns what it was.
TapeMode SetTapeMode(TapeMode mode);

class ScopedTapeMode {
 public:
  explicit ScopedTapeMode(TapeMode mode) : previous_(SetTapeMode(mode)) {}
  ~ScopedTapeMode() { SetTapeMode(previous_); }
  ScopedTapeMode(const ScopedTapeMode&) = delete;
  ScopedTapeMode& operator=(const ScopedTapeMode&) = delete;

 private:
  TapeMode previous_;
};

// While one lives, operations of this thread leave no tape. Those of their inputs that require a
// gradient are put into `inputs`, each once, in the order in which a walk back is done with them.
class ScopedInputNotes {
 public:
  explicit ScopedInputNotes(std::vector<Tensor>& inputs);
  ~ScopedInputNotes();
  ScopedInputNotes(const ScopedInputNotes&) = delete;
  ScopedInputNotes& operator=(const ScopedInputNotes&) = delete;

 private:
  ScopedTapeMode mode_{TapeMode::kNoted};
  std::vector<Tensor>* previous_;
};

}  // namespace ops
