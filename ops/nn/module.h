// Module: a piece of a model with parameters, buffers and child modules that have names.
//
//   class Mlp : public nn::Module {
//    public:
//     Mlp() { Register("fc1", fc1_); Register("fc2", fc2_); }
//     Tensor Forward(const Tensor& x) override { return fc2_.Forward(Relu(fc1_.Forward(x))); }
//    private:
//     nn::Linear fc1_{784, 128}, fc2_{128, 10};
//   };
//
// Names join with dots, as in PyTorch: "fc1.weight", "blocks.0.fc.bias". Children and tensors are
// members of the module: it keeps pointers to them, so modules can't be copied or moved.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops::nn {

class Module {
 public:
  Module() = default;
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // What the module computes. A module whose computation has another signature declares a function
  // of its own instead; this one then throws std::logic_error.
  virtual Tensor Forward(const Tensor& x);

  // All parameters, frozen ones too, and all buffers, of this module and its children, in the
  // order of registration, depth first. A tensor registered twice (tied weights) appears once,
  // under its first name.
  std::vector<NamedTensor> Parameters() const;
  std::vector<NamedTensor> Buffers() const;

  // "none yet" for every parameter's gradient.
  void ZeroGrad();

  // Layers that behave differently in training and evaluation (dropout, batch norm) ask
  // training(). A new module is in training mode.
  void Train(bool training = true);
  void Eval() { Train(false); }
  bool training() const { return training_; }

  // Parameters and buffers under their names; the tensors share memory with the module.
  std::vector<NamedTensor> StateDict() const;
  // Copies values in, by name. Throws std::invalid_argument that lists missing and unexpected
  // names, or the first tensor whose shape or dtype differs, and then nothing has changed.
  void LoadStateDict(const std::vector<NamedTensor>& state);

  // The module's own name, "blocks.0.fc": what error messages print. The outermost is "".
  std::string Path() const;

 protected:
  // What is registered stays the owner's. Each throws std::invalid_argument for an empty name, one
  // with a dot, or one taken.
  //
  // A child has one parent at a time; one that has another throws std::invalid_argument.
  void Register(std::string name, Module& child);
  // Makes it require a gradient.
  void RegisterParameter(std::string name, Tensor& parameter);
  // Part of the state, but not trained: running statistics.
  void RegisterBuffer(std::string name, Tensor& buffer);

 private:
  template <class T>
  using Named = std::pair<std::string, T*>;

  // Appends the tensors of one kind, of this module and its children, that aren't there yet.
  void Collect(std::vector<Named<Tensor>> Module::*kind, const std::string& prefix,
               std::vector<NamedTensor>& found) const;
  void RequireFree(const std::string& name) const;

  std::vector<Named<Module>> children_;
  std::vector<Named<Tensor>> parameters_;
  std::vector<Named<Tensor>> buffers_;
  Module* parent_ = nullptr;
  bool training_ = true;
};

}  // namespace ops::nn
