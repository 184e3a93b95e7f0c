// Self-attention as a layer.
#pragma once

#include <cstdint>

#include "ops/nn/linear.h"
#include "ops/nn/module.h"

namespace ops::nn {

struct SelfAttentionOptions {
  bool causal = true;
  bool bias = true;
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  Generator* generator = nullptr;  // null: Generator::ForThisThread()
};

// x [batch, time, width] -> the same: proj(Attention(qkv(x))), with children "qkv"
// (Linear(width, 3 width)) and "proj" (Linear(width, width)).
class SelfAttention : public Module {
 public:
  // Throws std::invalid_argument unless num_heads divides width.
  SelfAttention(int64_t width, int64_t num_heads, const SelfAttentionOptions& options = {});
  Tensor Forward(const Tensor& x) override;

 private:
  int64_t num_heads_;
  bool causal_;
  Linear qkv_, proj_;
};

}  // namespace ops::nn
