#include "ddp/data/dataset.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

using ops::Tensor;

// The tensors that `part` picks from the examples, along a new first dimension.
Tensor StackPart(std::span<const Example> examples, Tensor Example::*part, const char* name) {
  const Tensor& first = examples[0].*part;
  const int64_t count = static_cast<int64_t>(examples.size());
  Tensor stacked = Tensor::Empty(first.shape().Prepend(count), first.options());
  std::byte* place = stacked.raw_data();
  for (int64_t i = 0; i < count; ++i, place += first.num_bytes()) {
    const Tensor& one = examples[i].*part;
    if (one.shape() != first.shape() || one.dtype() != first.dtype()) {
      throw std::invalid_argument(
          fmt::format("examples of one batch differ: the {} of the first is {}, that of number {} "
                      "is {}; give the loader a collate function that makes them alike",
                      name, first.Describe(), i, one.Describe()));
    }
    std::memcpy(place, one.raw_data(), first.num_bytes());
  }
  return stacked;
}

Tensor GatherRows(const Tensor& source, std::span<const int64_t> rows) {
  const ops::Shape row = source.shape().DropFirst();
  const int64_t row_bytes = row.num_elements() * SizeOf(source.dtype());
  Tensor gathered = Tensor::Empty(row.Prepend(static_cast<int64_t>(rows.size())), source.options());
  std::byte* place = gathered.raw_data();
  for (int64_t index : rows) {
    std::memcpy(place, source.raw_data() + index * row_bytes, row_bytes);
    place += row_bytes;
  }
  return gathered;
}

Tensor Row(const Tensor& source, int64_t index) {
  return source.Slice(index, index + 1).View(source.shape().DropFirst());
}

}  // namespace

Batch Dataset::GetBatch(std::span<const int64_t> indices) const {
  std::vector<Example> examples;
  examples.reserve(indices.size());
  for (int64_t index : indices) examples.push_back(Get(index));
  return Stack(examples);
}

void Dataset::CheckIndex(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw std::out_of_range(fmt::format("example {} of a dataset of {}", index, size()));
  }
}

Batch Stack(std::span<const Example> examples) {
  if (examples.empty()) throw std::invalid_argument("Stack: no examples");
  return {StackPart(examples, &Example::input, "input"),
          StackPart(examples, &Example::target, "target")};
}

TensorDataset::TensorDataset(Tensor inputs, Tensor targets)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  if (inputs_.shape().rank() == 0 || targets_.shape().rank() == 0 ||
      inputs_.dim(0) != targets_.dim(0)) {
    throw std::invalid_argument(
        fmt::format("TensorDataset: inputs {} and targets {} must have the same number of rows",
                    inputs_.Describe(), targets_.Describe()));
  }
}

Example TensorDataset::Get(int64_t index) const {
  CheckIndex(index);
  return {Row(inputs_, index), Row(targets_, index)};
}

Batch TensorDataset::GetBatch(std::span<const int64_t> indices) const {
  for (int64_t index : indices) CheckIndex(index);
  return {GatherRows(inputs_, indices), GatherRows(targets_, indices)};
}

}  // namespace ddp
