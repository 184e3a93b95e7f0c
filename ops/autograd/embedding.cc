#include "ops/autograd/embedding.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

Shape Append(const Shape& shape, int64_t extent) {
  std::array<int64_t, Shape::kMaxRank + 1> dims{};
  std::ranges::copy(shape.dims(), dims.begin());
  dims[shape.rank()] = extent;
  return Shape(std::span<const int64_t>(dims.data(), shape.rank() + 1));
}

void CheckArguments(const Tensor& ids, const Tensor& table, int64_t padding_id) {
  RequireDefined("Embedding", {ids, table});
  if (ids.dtype() != DType::kInt64 || table.shape().rank() != 2 || ids.device() != table.device()) {
    throw std::invalid_argument(
        fmt::format("Embedding: expected int64 ids and a table [count, width], got {} and {}",
                    ids.Describe(), table.Describe()));
  }
  if (padding_id >= table.dim(0)) {
    throw std::invalid_argument(fmt::format("Embedding: the padding id {} is none of the table {}",
                                            padding_id, table.shape().ToString()));
  }
}

}  // namespace

Tensor Embedding(const Tensor& ids, const Tensor& table, int64_t padding_id, bool sparse) {
  CheckArguments(ids, table, padding_id);
  Tensor y = Tensor::Empty(Append(ids.shape(), table.dim(1)), table.options());
  kernels::GatherRows(ids, table, y);
  if (!NeedsTape({table})) return y;
  return Record("Embedding", std::move(y), {table},
                [ids, padding_id, sparse](const Tensor& dy, Node& node) {
                  GradMeta& table = *node.input(0);
                  if (sparse) return table.AddRows(ids, dy, padding_id);
                  table.GradMeta::AddRows(ids, dy, padding_id);
                });
}

}  // namespace ops
