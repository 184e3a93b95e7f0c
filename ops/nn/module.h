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

#include "absl/functional/function_ref.h"
#include "ops/tensor/tensor.h"

namespace ops::nn {

class Module;

// A module and its name, as seen from one above it: "blocks.0.fc".
struct NamedModule {
  std::string name;
  Module* module;
};

// A member of a module that holds a parameter.
struct NamedHandle {
  std::string name;
  const Tensor* tensor;
};

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

  // The members that hold the parameters, in the order of registration: each under its own name,
  // also those that share a tensor. For seeing whether one was given another tensor since.
  std::vector<NamedHandle> ParameterHandles() const;

  // This module, under the name "", and all below it, in the order of Parameters(): to give every
  // layer of a kind other weights, or to freeze some.
  //
  //   for (const auto& [name, module] : model.Modules()) {
  //     if (auto* linear = dynamic_cast<nn::Linear*>(module)) ...
  //   }
  std::vector<NamedModule> Modules();

  // "none yet" for every parameter's gradient.
  void ZeroGrad();

  // All parameters, here and below, get no gradient any more, so that optimizers leave them alone;
  // gradients that they have are dropped. With false they are trained again.
  void Freeze(bool frozen = true);

  // Replaces floating point parameters and buffers, here and below, by ones of another dtype; where
  // that has 16 bits, buffers become float32: running statistics move in steps too small for less.
  // Parameters that were the same tensor (tied weights) still are. Gradients and hooks don't come
  // along: call it before an optimizer or DistributedDataParallel gets the parameters. Throws
  // std::invalid_argument for a dtype that isn't floating point.
  void To(DType dtype);

  // Layers that behave differently in training and evaluation (dropout, batch norm) ask
  // training(). A new module is in training mode.
  void Train(bool training = true);
  void Eval() { Train(false); }
  bool training() const { return training_; }

  // Parameters and buffers under their names; the tensors share memory with the module.
  std::vector<NamedTensor> StateDict() const;
  // Copies values in, by name. Throws std::invalid_argument that lists missing and unexpected
  // names, or the first tensor whose shape or dtype differs, and then nothing has changed. Unless
  // `strict`, names that only one side has are passed over: to begin with a part of another model.
  void LoadStateDict(const std::vector<NamedTensor>& state, bool strict = true);

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
  void CollectHandles(const std::string& prefix, std::vector<NamedHandle>& found) const;
  void CollectModules(const std::string& prefix, std::vector<NamedModule>& found);
  // Calls f for each registered handle, here and below; one tensor may have several.
  void ForEachHandle(absl::FunctionRef<void(Tensor&, bool is_buffer)> f);
  void RequireFree(const std::string& name) const;

  std::vector<Named<Module>> children_;
  std::vector<Named<Tensor>> parameters_;
  std::vector<Named<Tensor>> buffers_;
  Module* parent_ = nullptr;
  bool training_ = true;
};

}  // namespace ops::nn
