#include "ops/nn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "ops/autograd/grad.h"

namespace ops::nn {
namespace {

std::string Join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

bool Contains(const std::vector<NamedTensor>& list, const Tensor& tensor) {
  return std::ranges::any_of(
      list, [&](const NamedTensor& known) { return known.tensor.IsSameAs(tensor); });
}

using ByName = std::map<std::string_view, const Tensor*>;

// Throws unless both have the same names.
void RequireSameNames(const std::vector<NamedTensor>& own, const ByName& values) {
  std::vector<std::string_view> missing, unexpected;
  for (const auto& [name, tensor] : own) {
    if (!values.contains(name)) missing.push_back(name);
  }
  for (const auto& [name, tensor] : values) {
    const bool known =
        std::ranges::any_of(own, [&](const auto& mine) { return mine.name == name; });
    if (!known) unexpected.push_back(name);
  }
  if (missing.empty() && unexpected.empty()) return;
  throw std::invalid_argument(fmt::format("LoadStateDict: missing: [{}], unexpected: [{}]",
                                          fmt::join(missing, ", "), fmt::join(unexpected, ", ")));
}

void RequireAlike(const NamedTensor& own, const Tensor& value) {
  const auto& [name, tensor] = own;
  if (value.defined() && value.shape() == tensor.shape() && value.dtype() == tensor.dtype()) return;
  throw std::invalid_argument(fmt::format("LoadStateDict: '{}' is {}, expected {}", name,
                                          value.Describe(), tensor.Describe()));
}

}  // namespace

// A child may go before its parent (a member does) or after it (what a wrapper was given does).
Module::~Module() {
  if (parent_ != nullptr) {
    std::erase_if(parent_->children_, [this](const auto& child) { return child.second == this; });
  }
  for (const auto& [name, child] : children_) child->parent_ = nullptr;
}

Tensor Module::Forward(const Tensor&) {
  throw std::logic_error(fmt::format("module '{}' doesn't define Forward(const Tensor&)", Path()));
}

void Module::Collect(std::vector<Named<Tensor>> Module::*kind, const std::string& prefix,
                     std::vector<NamedTensor>& found) const {
  for (const auto& [name, tensor] : this->*kind) {
    if (!Contains(found, *tensor)) found.push_back({Join(prefix, name), *tensor});
  }
  for (const auto& [name, child] : children_) child->Collect(kind, Join(prefix, name), found);
}

void Module::CollectHandles(const std::string& prefix, std::vector<NamedHandle>& found) const {
  for (const auto& [name, tensor] : parameters_) found.push_back({Join(prefix, name), tensor});
  for (const auto& [name, child] : children_) child->CollectHandles(Join(prefix, name), found);
}

std::vector<NamedHandle> Module::ParameterHandles() const {
  std::vector<NamedHandle> found;
  CollectHandles("", found);
  return found;
}

std::vector<NamedTensor> Module::Parameters() const {
  std::vector<NamedTensor> found;
  Collect(&Module::parameters_, "", found);
  return found;
}

std::vector<NamedTensor> Module::Buffers() const {
  std::vector<NamedTensor> found;
  Collect(&Module::buffers_, "", found);
  return found;
}

std::vector<NamedModule> Module::Modules() {
  std::vector<NamedModule> found;
  CollectModules("", found);
  return found;
}

void Module::CollectModules(const std::string& prefix, std::vector<NamedModule>& found) {
  found.push_back({prefix, this});
  for (const auto& [name, child] : children_) child->CollectModules(Join(prefix, name), found);
}

void Module::ForEachHandle(absl::FunctionRef<void(Tensor&, bool is_buffer)> f) {
  for (const auto& [name, parameter] : parameters_) f(*parameter, false);
  for (const auto& [name, buffer] : buffers_) f(*buffer, true);
  for (const auto& [name, child] : children_) child->ForEachHandle(f);
}

void Module::ZeroGrad() {
  for (const auto& [name, parameter] : parameters_) ClearGrad(*parameter);
  for (const auto& [name, child] : children_) child->ZeroGrad();
}

void Module::Freeze(bool frozen) {
  for (const auto& [name, parameter] : parameters_) {
    SetRequiresGrad(*parameter, !frozen);
    if (frozen) ClearGrad(*parameter);
  }
  for (const auto& [name, child] : children_) child->Freeze(frozen);
}

void Module::To(DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(fmt::format(
        "a module's parameters can't be {}: expected a floating point dtype", Name(dtype)));
  }
  const DType of_buffers = SizeOf(dtype) == 2 ? DType::kFloat32 : dtype;
  std::vector<std::pair<Tensor, Tensor>> replaced;  // by what
  ForEachHandle([&](Tensor& handle, bool is_buffer) {
    const DType wanted = is_buffer ? of_buffers : dtype;
    if (!IsFloating(handle.dtype()) || handle.dtype() == wanted) return;
    auto known = std::ranges::find_if(
        replaced, [&handle](const auto& pair) { return pair.first.IsSameAs(handle); });
    if (known == replaced.end()) {
      known = replaced.emplace(known, handle, handle.To(wanted));
      if (ExpectsSparseGrad(handle)) ExpectSparseGrad(SetRequiresGrad(known->second));
      SetRequiresGrad(known->second, RequiresGrad(handle));
    }
    handle = known->second;
  });
}

void Module::Train(bool training) {
  training_ = training;
  for (const auto& [name, child] : children_) child->Train(training);
}

std::vector<NamedTensor> Module::StateDict() const {
  std::vector<NamedTensor> state = Parameters();
  Collect(&Module::buffers_, "", state);
  return state;
}

void Module::LoadStateDict(const std::vector<NamedTensor>& state, bool strict) {
  std::vector<NamedTensor> own = StateDict();
  ByName values;
  for (const auto& [name, tensor] : state) values[name] = &tensor;
  if (strict) RequireSameNames(own, values);
  std::erase_if(own, [&values](const NamedTensor& mine) { return !values.contains(mine.name); });
  for (const NamedTensor& mine : own) RequireAlike(mine, *values.at(mine.name));
  for (const auto& [name, tensor] : own) tensor.CopyFrom(*values.at(name));
}

std::string Module::Path() const {
  if (parent_ == nullptr) return "";
  const auto me = std::ranges::find(parent_->children_, this, &Named<Module>::second);
  return Join(parent_->Path(), me->first);
}

void Module::RequireFree(const std::string& name) const {
  const auto taken = [&name](const auto& registered) {
    return std::ranges::any_of(registered, [&](const auto& entry) { return entry.first == name; });
  };
  if (name.empty() || name.find('.') != std::string::npos) {
    throw std::invalid_argument(
        fmt::format("a module can't register '{}': names are not empty and have no dot", name));
  }
  if (taken(children_) || taken(parameters_) || taken(buffers_)) {
    throw std::invalid_argument(fmt::format("a module has registered '{}' already", name));
  }
}

void Module::Register(std::string name, Module& child) {
  RequireFree(name);
  if (child.parent_ != nullptr) {
    throw std::invalid_argument(
        fmt::format("module '{}' has a parent already, as '{}'", name, child.Path()));
  }
  child.parent_ = this;
  children_.emplace_back(std::move(name), &child);
}

void Module::RegisterParameter(std::string name, Tensor& parameter) {
  RequireFree(name);
  SetRequiresGrad(parameter);
  parameters_.emplace_back(std::move(name), &parameter);
}

void Module::RegisterBuffer(std::string name, Tensor& buffer) {
  RequireFree(name);
  buffers_.emplace_back(std::move(name), &buffer);
}

}  // namespace ops::nn
