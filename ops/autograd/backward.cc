// The walk back over the tape.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/autograd/grad.h"
#include "ops/autograd/leaf.h"
#include "ops/autograd/node.h"

namespace ops {

// One Backward: lists the nodes that the loss depends on, latest first, then runs them. When
// something throws, its destructor leaves leaves and nodes as if the rest had never been listed.
class BackwardWalk {
 public:
  explicit BackwardWalk(std::shared_ptr<GradMeta> root);
  ~BackwardWalk();
  BackwardWalk(const BackwardWalk&) = delete;
  BackwardWalk& operator=(const BackwardWalk&) = delete;

  void Run(const Tensor& gradient);
  void AtEnd(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }

  // The one that runs on this thread, or null; of several inside each other, the outermost.
  static BackwardWalk* Running();

 private:
  struct ThreadState {
    BackwardWalk* running = nullptr;
    std::vector<std::shared_ptr<Node>> spare;  // keeps its capacity from one walk to the next
  };
  static ThreadState& ThisThread();

  void List(const std::shared_ptr<GradMeta>& meta);
  void ListFromRoot();
  void RunNode(Node& node);

  std::shared_ptr<GradMeta> root_;
  BackwardWalk* const outer_;  // a Backward inside a hook or a node of another
  std::vector<std::shared_ptr<Node>> nodes_;
  size_t next_ = 0;  // of nodes_ to be run
  bool uses_counted_ = false;
  std::vector<std::function<void()>> callbacks_;
};

namespace {

Leaf* AsLeaf(const std::shared_ptr<GradMeta>& meta) {
  return meta == nullptr || meta->AsNode() != nullptr ? nullptr : static_cast<Leaf*>(meta.get());
}

}  // namespace

BackwardWalk::ThreadState& BackwardWalk::ThisThread() {
  thread_local ThreadState state;
  return state;
}

BackwardWalk* BackwardWalk::Running() {
  BackwardWalk* walk = ThisThread().running;
  while (walk != nullptr && walk->outer_ != nullptr) walk = walk->outer_;
  return walk;
}

BackwardWalk::BackwardWalk(std::shared_ptr<GradMeta> root)
    : root_(std::move(root)),
      outer_(std::exchange(ThisThread().running, this)),
      nodes_(std::move(ThisThread().spare)) {}

BackwardWalk::~BackwardWalk() {
  for (; next_ < nodes_.size(); ++next_) {
    Node& node = *nodes_[next_];
    node.listed_ = false;
    node.gradient_ = Tensor();
    if (!uses_counted_) continue;
    for (const auto& input : node.inputs_) {
      if (Leaf* leaf = AsLeaf(input)) leaf->AbandonUse();
    }
  }
  nodes_.clear();
  ThreadState& thread = ThisThread();
  thread.running = outer_;
  thread.spare = std::move(nodes_);
}

void BackwardWalk::List(const std::shared_ptr<GradMeta>& meta) {
  Node* node = meta != nullptr ? meta->AsNode() : nullptr;
  if (node == nullptr || node->listed_) return;
  if (node->used_) {
    throw std::logic_error(
        fmt::format("Backward: the tape was used up by an earlier Backward (it reached {} again); "
                    "compute the loss anew, or add losses and call Backward once",
                    node->name()));
  }
  nodes_.push_back(std::static_pointer_cast<Node>(meta));
  node->listed_ = true;
}

void BackwardWalk::ListFromRoot() {
  List(root_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = *nodes_[i];
    for (const auto& input : node.inputs_) List(input);
  }
  std::ranges::sort(nodes_,
                    [](const auto& a, const auto& b) { return a->sequence_ > b->sequence_; });
  for (const auto& node : nodes_) {
    for (const auto& input : node->inputs_) {
      if (Leaf* leaf = AsLeaf(input)) leaf->ExpectUse();
    }
  }
  uses_counted_ = true;
}

void BackwardWalk::RunNode(Node& node) {
  node.listed_ = false;
  node.used_ = true;
  const Tensor gradient = std::move(node.gradient_);
  if (gradient.defined()) node.Run(gradient);
  for (auto& input : node.inputs_) {
    const std::shared_ptr<GradMeta> done = std::move(input);
    if (Leaf* leaf = AsLeaf(done)) leaf->FinishUse();
  }
}

void BackwardWalk::Run(const Tensor& gradient) {
  ListFromRoot();
  if (Leaf* leaf = AsLeaf(root_)) {
    leaf->Add(gradient);
    leaf->ExpectUse();
    leaf->FinishUse();
  } else {
    root_->Add(gradient);
  }
  for (; next_ < nodes_.size(); ++next_) {
    RunNode(*nodes_[next_]);
    nodes_[next_].reset();
  }
  // A callback may add another.
  for (size_t i = 0; i < callbacks_.size(); ++i) std::exchange(callbacks_[i], nullptr)();
}

namespace {

Tensor FirstGradient(const Tensor& loss, const Tensor& gradient) {
  if (!gradient.defined()) {
    if (loss.num_elements() == 1) return Tensor::Full(loss.shape(), 1, loss.options());
    throw std::invalid_argument(
        fmt::format("Backward: {} isn't one number; give the gradient to start from, or Sum() it",
                    loss.Describe()));
  }
  if (gradient.shape() != loss.shape() || gradient.dtype() != loss.dtype() ||
      gradient.device() != loss.device()) {
    throw std::invalid_argument(fmt::format("Backward: a gradient {} doesn't fit the loss {}",
                                            gradient.Describe(), loss.Describe()));
  }
  return gradient;
}

}  // namespace

void Backward(const Tensor& loss, const Tensor& gradient) {
  if (!RequiresGrad(loss)) {
    throw std::invalid_argument(
        fmt::format("Backward: {} depends on no tensor that requires a gradient", loss.Describe()));
  }
  const Tensor first = FirstGradient(loss, gradient);
  NoGradGuard no_tape_of_the_walk;
  BackwardWalk(std::static_pointer_cast<GradMeta>(loss.shared_meta())).Run(first);
}

void OnBackwardEnd(std::function<void()> callback) {
  BackwardWalk* walk = BackwardWalk::Running();
  if (walk == nullptr) throw std::logic_error("OnBackwardEnd: no Backward runs on this thread");
  walk->AtEnd(std::move(callback));
}

}  // namespace ops
