#include "ops/autograd/activations.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using kernels::Activation;

void RequireAlike(std::string_view function, const Tensor& a, const Tensor& b) {
  RequireSameType(function, a, b);
  RequireFloating(function, a);
  if (a.shape() == b.shape()) return;
  throw std::invalid_argument(fmt::format("{}: inputs {} and {} differ in shape", function,
                                          a.shape().ToString(), b.shape().ToString()));
}

Tensor Apply(std::string_view name, Activation f, const Tensor& x, double parameter = 0) {
  RequireFloating(name, x);
  Tensor y = Tensor::Empty(x.shape(), x.options());
  kernels::Activate(f, x, y, parameter);
  if (!NeedsTape({x})) return y;
  Tensor kept = kernels::NeedsOutput(f) ? y.Detach() : Saved(x);
  return Record(name, std::move(y), {x},
                [f, parameter, kept = std::move(kept)](const Tensor& dy, Node& node) {
                  const auto [place, accumulate] = node.input(0)->TargetOver(dy);
                  kernels::ActivateBackward(f, kept, dy, place, accumulate, parameter);
                });
}

}  // namespace

Tensor Relu(const Tensor& x) { return Apply("Relu", Activation::kRelu, x); }

Tensor LeakyRelu(const Tensor& x, double negative_slope) {
  return Apply("LeakyRelu", Activation::kLeakyRelu, x, negative_slope);
}

Tensor Gelu(const Tensor& x, Approximate approximate) {
  const bool tanh = approximate == Approximate::kTanh;
  return Apply("Gelu", tanh ? Activation::kGeluTanh : Activation::kGelu, x);
}

Tensor Sigmoid(const Tensor& x) { return Apply("Sigmoid", Activation::kSigmoid, x); }
Tensor Tanh(const Tensor& x) { return Apply("Tanh", Activation::kTanh, x); }
Tensor Silu(const Tensor& x) { return Apply("Silu", Activation::kSilu, x); }

Tensor AddRelu(const Tensor& a, const Tensor& b) {
  RequireAlike("AddRelu", a, b);
  Tensor y = Tensor::Empty(a.shape(), a.options());
  kernels::AddRelu(a, b, y);
  if (!NeedsTape({a, b})) return y;
  Tensor kept = y.Detach();
  return Record(
      "AddRelu", std::move(y), {a, b}, [y = std::move(kept)](const Tensor& dy, Node& node) {
        const Tensor both = dy.IsSoleOwner() ? dy : Tensor::Empty(dy.shape(), dy.options());
        kernels::ActivateBackward(Activation::kRelu, y, dy, both, false);
        if (GradMeta* da = node.input(0)) da->Add(both);
        if (GradMeta* db = node.input(1)) db->Add(both);
      });
}

Tensor SwiGlu(const Tensor& gate, const Tensor& up) {
  RequireAlike("SwiGlu", gate, up);
  Tensor y = Tensor::Empty(gate.shape(), gate.options());
  kernels::SwiGlu(gate, up, y);
  if (!NeedsTape({gate, up})) return y;
  return Record("SwiGlu", std::move(y), {gate, up},
                [gate = Saved(gate), up = SavedFor(gate, up)](const Tensor& dy, Node& node) {
                  if (GradMeta* dgate = node.input(0)) {
                    const auto [place, accumulate] = dgate->Target();
                    kernels::SwiGluGateBackward(gate, up, dy, place, accumulate);
                  }
                  if (GradMeta* dup = node.input(1)) {
                    const auto [place, accumulate] = dup->TargetOver(dy);
                    kernels::SwiGluUpBackward(gate, dy, place, accumulate);
                  }
                });
}

Tensor Dropout(const Tensor& x, double probability, const DropoutKey& key) {
  RequireFloating("Dropout", x);
  if (!(probability >= 0 && probability <= 1)) {
    throw std::invalid_argument(
        fmt::format("Dropout: the probability is {}, expected one in [0, 1]", probability));
  }
  if (key.first_position < 0) {
    throw std::invalid_argument(
        fmt::format("Dropout: first_position is {}, expected at least 0", key.first_position));
  }
  const kernels::DropoutMask mask = {.probability = probability,
                                     .seed = key.seed,
                                     .step = key.step,
                                     .first_position = static_cast<uint64_t>(key.first_position)};
  Tensor y = Tensor::Empty(x.shape(), x.options());
  kernels::Dropout(x, mask, y, /*accumulate=*/false);
  if (!NeedsTape({x})) return y;
  return Record("Dropout", std::move(y), {x}, [mask](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = node.input(0)->TargetOver(dy);
    kernels::Dropout(dy, mask, place, accumulate);
  });
}

}  // namespace ops
