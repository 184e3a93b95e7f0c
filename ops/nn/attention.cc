#include "ops/nn/attention.h"

#include <fmt/format.h>

#include <stdexcept>

#include "ops/autograd/attention.h"

namespace ops::nn {
namespace {

void RequireHeadsThatDivide(int64_t width, int64_t num_heads) {
  if (num_heads < 1 || width % num_heads != 0) {
    throw std::invalid_argument(fmt::format(
        "SelfAttention: num_heads is {}, expected a divisor of the width {}", num_heads, width));
  }
}

LinearOptions Projection(const SelfAttentionOptions& options) {
  return {options.bias, options.dtype, options.device, options.generator};
}

}  // namespace

SelfAttention::SelfAttention(int64_t width, int64_t num_heads, const SelfAttentionOptions& options)
    : num_heads_(num_heads),
      causal_(options.causal),
      qkv_(width, 3 * width, Projection(options)),
      proj_(width, width, Projection(options)) {
  RequireHeadsThatDivide(width, num_heads);
  Register("qkv", qkv_);
  Register("proj", proj_);
}

Tensor SelfAttention::Forward(const Tensor& x) {
  if (x.defined() && x.shape().rank() != 3) {
    throw std::invalid_argument(
        fmt::format("SelfAttention '{}': expected input [batch, time, {}], got {}", Path(),
                    proj_.weight.dim(0), x.shape().ToString()));
  }
  const Tensor qkv = qkv_.Forward(x);
  return proj_.Forward(Attention(qkv, {.num_heads = num_heads_, .causal = causal_}));
}

}  // namespace ops::nn
