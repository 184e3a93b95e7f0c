// A table of vectors.
#pragma once

#include <cstdint>

#include "ops/nn/module.h"
#include "ops/tensor/random.h"

namespace ops::nn {

struct EmbeddingOptions {
  int64_t padding_id = -1;  // this row starts at 0 and stays; negative: none
  bool sparse = false;      // the weight gets a sparse gradient (ops/autograd/grad.h)
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
  Generator* generator = nullptr;  // null: Generator::ForThisThread()
};

// ids [...] (int64) -> [..., width]; "weight" [count, width], drawn from N(0, 1).
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, const EmbeddingOptions& options = {});
  Tensor Forward(const Tensor& ids) override;

  Tensor weight;

 private:
  int64_t padding_id_;
  bool sparse_;
};

}  // namespace ops::nn
