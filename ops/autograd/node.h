// The tape: for whoever adds a differentiable function. functions.h is for whoever calls one.
//
// A function computes its output with kernels and, when an input requires a gradient, hangs a Node
// on it that keeps what the way back needs:
//
//   class ReluNode final : public Node {
//    public:
//     ReluNode(const Tensor& x, const Tensor& y) : Node({x}), y_(y.Detach()) {}
//     std::string_view name() const override { return "Relu"; }
//     void Backward(const Tensor& dy) override {
//       GradTarget dx = input(0).Target();
//       kernels::ReluBackward(y_, dy, dx.tensor, dx.accumulate);
//     }
//    private:
//     Tensor y_;
//   };
//
//   Tensor Relu(const Tensor& x) {
//     Tensor y = Tensor::Empty(x.shape(), x.options());
//     kernels::Relu(x, y);
//     return Record<ReluNode>(y, {x}, x, y);   // Node made only if x requires a gradient
//   }
//
// Nodes have one output and keep only what they need: detached tensors (a node that kept its own
// output's handle would keep itself alive). Backward visits nodes in the reverse order of their
// making, which is fixed, so sums of gradients have a fixed order.
#pragma once
