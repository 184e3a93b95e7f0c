#include "launch/models/gpt.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "ops/autograd/functions.h"
#include "ops/nn/init.h"

namespace launch {
namespace {

using ops::Tensor;

constexpr double kDeviation = 0.02;

const GptOptions& Checked(const GptOptions& options) {
  CheckGptOptions(options);
  return options;
}

ops::nn::LinearOptions DrawnFrom(ops::Generator& generator) { return {.generator = &generator}; }

void Draw(ops::nn::Linear& linear, double deviation, ops::Generator& generator) {
  ops::nn::init::Normal(linear.weight, 0, deviation, generator);
  ops::nn::init::Constant(linear.bias, 0);
}

// 0, 1, ... time - 1.
Tensor Positions(int64_t time) {
  const Tensor positions = Tensor::Empty({time}, {.dtype = ops::DType::kInt64});
  std::iota(positions.data<int64_t>(), positions.data<int64_t>() + time, 0);
  return positions;
}

}  // namespace

GptBlock::GptBlock(const GptOptions& options, ops::Generator& generator)
    : heads_(options.heads),
      ln1_(options.width),
      qkv_(options.width, 3 * options.width, DrawnFrom(generator)),
      proj_(options.width, options.width, DrawnFrom(generator)),
      ln2_(options.width),
      fc_(options.width, 4 * options.width, DrawnFrom(generator)),
      out_(4 * options.width, options.width, DrawnFrom(generator)) {
  Register("ln1", ln1_);
  Register("ln2", ln2_);
  Register("qkv", qkv_);
  Register("proj", proj_);
  Register("fc", fc_);
  Register("out", out_);
  // Each block adds two branches to the residual stream, whose variance shall not grow with depth.
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  Draw(qkv_, kDeviation, generator);
  Draw(proj_, residual, generator);
  Draw(fc_, kDeviation, generator);
  Draw(out_, residual, generator);
}

Tensor GptBlock::Forward(const Tensor& x) {
  const Tensor attended =
      x + proj_.Forward(ops::Attention(qkv_.Forward(ln1_.Forward(x)), {.num_heads = heads_}));
  return attended +
         out_.Forward(ops::Gelu(fc_.Forward(ln2_.Forward(attended)), ops::Approximate::kTanh));
}

Gpt::Gpt(const GptOptions& options, ops::Generator& generator)
    : options_(Checked(options)),
      wte_(options.vocab, options.width, {.generator = &generator}),
      wpe_(options.context, options.width, {.generator = &generator}),
      lnf_(options.width) {
  for (int64_t i = 0; i < options.layers; ++i) blocks_.Add(options, generator);
  Register("wte", wte_);
  Register("wpe", wpe_);
  Register("blocks", blocks_);
  Register("lnf", lnf_);
  ops::nn::init::Normal(wte_.weight, 0, kDeviation, generator);
  ops::nn::init::Normal(wpe_.weight, 0, kDeviation, generator);
}

Tensor Gpt::Forward(const Tensor& ids) {
  if (!ids.defined() || ids.shape().rank() != 2 || ids.dim(1) > options_.context) {
    throw std::invalid_argument(fmt::format("gpt: expected ids [batch, up to {}], got {}",
                                            options_.context, ids.Describe()));
  }
  Tensor x = wte_.Forward(ids) + wpe_.Forward(Positions(ids.dim(1)));
  for (GptBlock& block : blocks_) x = block.Forward(x);
  return ops::Linear(lnf_.Forward(x), wte_.weight, {});
}

}  // namespace launch
