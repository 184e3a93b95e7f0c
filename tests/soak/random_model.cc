#include "tests/soak/random_model.h"

#include <fmt/format.h>

#include <utility>

#include "ops/autograd/checkpoint.h"
#include "ops/autograd/functions.h"
#include "ops/tensor/random.h"

namespace ddp::soak {

using ops::Tensor;

RandomModel::RandomModel(const ModelPlan& plan, uint64_t seed) : plan_(plan) {
  ops::Generator random(seed);
  const auto values = [&](const ops::Shape& shape) {
    return Tensor::Randn(shape, random, {.dtype = plan.dtype});
  };
  if (plan.num_embeddings > 0) {
    table_ = values({plan.num_embeddings, plan.width});
    RegisterParameter("table", table_);
  }
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    const Block& block = plan.blocks[b];
    Layer& layer = blocks_.emplace_back();
    if (block.kind == Block::Kind::kScale) {
      layer.Add("scale", layer.scale, values({plan.width}));
    } else {
      layer.Add("weight", layer.weight,
                block.kind == Block::Kind::kTied ? blocks_[block.tied_to].weight
                                                 : values({plan.width, plan.width}));
      layer.Add("bias", layer.bias, values({plan.width}));
    }
    Register(fmt::format("block{}", b), layer);
  }
  head_.Add("weight", head_.weight, values({plan.num_outputs, plan.width}));
  head_.Add("bias", head_.bias, values({plan.num_outputs}));
  Register("head", head_);
}

void RandomModel::Layer::Add(const char* name, Tensor& tensor, Tensor value) {
  tensor = std::move(value);
  RegisterParameter(name, tensor);
}

Tensor RandomModel::Layer::Apply(const Tensor& x) const {
  return scale.defined() ? x * scale : Tanh(Linear(x, weight, bias));
}

Tensor RandomModel::Forward(const Tensor& x) {
  Tensor y = table_.defined() ? Embedding(x, table_) : x;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (block.optional && (skipped_ >> b & 1) != 0) continue;
    const auto apply = [&layer = blocks_[b], &block](const Tensor& x) {
      return block.optional ? x + layer.Apply(x) : layer.Apply(x);
    };
    y = block.checkpointed ? ops::Checkpoint(apply, y) : apply(y);
  }
  return Linear(y, head_.weight, head_.bias);
}

}  // namespace ddp::soak
