// GPT-2 (Radford et al. 2019): a transformer that guesses the next token.
//
// Parameters, in this order: wte.weight, wpe.weight, then for each block ln1, ln2, qkv, proj, fc,
// out (weight and bias each), and lnf. The head is wte's weight again, without a bias. GELU is the
// tanh form, LayerNorm's epsilon 1e-5.
#pragma once

#include <cstdint>

#include "launch/models/model_options.h"
#include "ops/nn/containers.h"
#include "ops/nn/embedding.h"
#include "ops/nn/linear.h"
#include "ops/nn/module.h"
#include "ops/nn/normalization.h"
#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace launch {

// x + proj(attention(qkv(ln1(x)))), then x + out(gelu(fc(ln2(x)))).
class GptBlock : public ops::nn::Module {
 public:
  GptBlock(const GptOptions& options, ops::Generator& generator);
  ops::Tensor Forward(const ops::Tensor& x) override;

 private:
  int64_t heads_;
  ops::nn::LayerNorm ln1_;
  ops::nn::Linear qkv_, proj_;
  ops::nn::LayerNorm ln2_;
  ops::nn::Linear fc_, out_;
};

class Gpt : public ops::nn::Module {
 public:
  // Matrices are drawn from N(0, 0.02), those that end a residual branch from N(0, 0.02 /
  // sqrt(2 layers)); biases are 0. Throws std::invalid_argument for options that don't go together.
  Gpt(const GptOptions& options, ops::Generator& generator);

  // ids [batch, time] (int64) -> logits [batch, time, vocab]. Throws std::invalid_argument for a
  // sequence longer than the context, or an id outside the vocabulary.
  ops::Tensor Forward(const ops::Tensor& ids) override;

  const GptOptions& options() const { return options_; }

 private:
  const GptOptions options_;
  ops::nn::Embedding wte_, wpe_;
  ops::nn::ModuleList<GptBlock> blocks_;
  ops::nn::LayerNorm lnf_;
};

}  // namespace launch
