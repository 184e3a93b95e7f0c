#include "ops/nn/linear.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "ops/autograd/matmul.h"
#include "ops/nn/init.h"

namespace ops::nn {
namespace {

// At least 1: a layer of nothing is more likely a mistake than a wish.
void RequirePositive(const char* name, int64_t features) {
  if (features < 1) {
    throw std::invalid_argument(
        fmt::format("Linear: {} is {}, expected at least 1", name, features));
  }
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, const LinearOptions& options) {
  RequirePositive("in_features", in_features);
  RequirePositive("out_features", out_features);
  Generator& generator =
      options.generator != nullptr ? *options.generator : Generator::ForThisThread();
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  weight = Tensor::Empty({out_features, in_features}, {options.dtype, options.device});
  init::Uniform(weight, -bound, bound, generator);
  RegisterParameter("weight", weight);
  if (!options.bias) return;
  bias = Tensor::Empty({out_features}, {options.dtype, options.device});
  init::Uniform(bias, -bound, bound, generator);
  RegisterParameter("bias", bias);
}

Tensor Linear::Forward(const Tensor& x) {
  const bool fits = x.defined() && x.shape().rank() > 0 && x.dim(-1) == weight.dim(1) &&
                    x.dtype() == weight.dtype();
  if (!fits) ThrowUnfit(x);
  return ops::Linear(x, weight, bias);
}

void Linear::ThrowUnfit(const Tensor& x) const {
  const bool same_dtype = !x.defined() || x.dtype() == weight.dtype();
  throw std::invalid_argument(
      fmt::format("Linear '{}': input {} doesn't fit weight {}: expected [..., {}]", Path(),
                  x.defined() && same_dtype ? x.shape().ToString() : x.Describe(),
                  same_dtype ? weight.shape().ToString() : weight.Describe(), weight.dim(1)));
}

}  // namespace ops::nn
