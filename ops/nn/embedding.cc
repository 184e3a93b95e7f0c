#include "ops/nn/embedding.h"

#include <fmt/format.h>

#include <stdexcept>

#include "ops/autograd/embedding.h"
#include "ops/autograd/grad.h"
#include "ops/nn/init.h"

namespace ops::nn {

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options)
    : padding_id_(options.padding_id), sparse_(options.sparse) {
  if (padding_id_ >= count) {
    throw std::invalid_argument(
        fmt::format("Embedding: padding_id is {}, expected less than {}", padding_id_, count));
  }
  Generator& generator =
      options.generator != nullptr ? *options.generator : Generator::ForThisThread();
  weight = Tensor::Empty({count, width}, {options.dtype, options.device});
  init::Normal(weight, 0, 1, generator);
  if (padding_id_ >= 0) weight.Slice(padding_id_, padding_id_ + 1).FillZero();
  RegisterParameter("weight", weight);
  ExpectSparseGrad(weight, sparse_);
}

Tensor Embedding::Forward(const Tensor& ids) {
  if (!ids.defined() || ids.dtype() != DType::kInt64) {
    throw std::invalid_argument(
        fmt::format("Embedding '{}': expected int64 ids, got {}", Path(), ids.Describe()));
  }
  return ops::Embedding(ids, weight, padding_id_, sparse_);
}

}  // namespace ops::nn
