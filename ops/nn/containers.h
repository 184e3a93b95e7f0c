// Modules that hold modules and own them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/nn/module.h"

namespace ops::nn {

// Modules one after the other, named "0", "1", ...
//
//   nn::Sequential net;
//   net.Add<nn::Linear>(784, 128);
//   net.Add<nn::Relu>();
class Sequential : public Module {
 public:
  Tensor Forward(const Tensor& x) override;

  template <class Layer, class... Args>
  Layer& Add(Args&&... args) {
    auto layer = std::make_unique<Layer>(std::forward<Args>(args)...);
    Layer& added = *layer;
    Append(std::move(layer));
    return added;
  }
  int64_t size() const { return static_cast<int64_t>(layers_.size()); }

 private:
  void Append(std::unique_ptr<Module> layer);
  std::vector<std::unique_ptr<Module>> layers_;
};

// Modules of one kind, named "0", "1", ..., for a model that says itself how they are used:
//
//   nn::ModuleList<Block> blocks;
//   for (int i = 0; i < layers; ++i) blocks.Add(width, heads);
//   for (Block& block : blocks) x = block.Forward(x);
template <class Kind = Module>
class ModuleList : public Module {
 public:
  template <class... Args>
  Kind& Add(Args&&... args) {
    auto module = std::make_unique<Kind>(std::forward<Args>(args)...);
    Register(std::to_string(modules_.size()), *module);
    modules_.push_back(std::move(module));
    return *modules_.back();
  }

  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  Kind& operator[](int64_t i) { return *modules_[i]; }

  class Iterator {
   public:
    explicit Iterator(const std::unique_ptr<Kind>* at) : at_(at) {}
    Kind& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const std::unique_ptr<Kind>* at_;
  };
  Iterator begin() const { return Iterator(modules_.data()); }
  Iterator end() const { return Iterator(modules_.data() + modules_.size()); }

 private:
  std::vector<std::unique_ptr<Kind>> modules_;
};

}  // namespace ops::nn
