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

// Copies rows of a size that is known at compile time: a move or two each.
template <int64_t kRowBytes>
void CopySmallRows(const std::byte* source, std::span<const int64_t> rows, std::byte* place) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(place + i * kRowBytes, source + rows[i] * kRowBytes, kRowBytes);
  }
}

void CopyRows(const std::byte* source, std::span<const int64_t> rows, int64_t row_bytes,
              std::byte* place) {
  if (row_bytes == 4) return CopySmallRows<4>(source, rows, place);
  if (row_bytes == 8) return CopySmallRows<8>(source, rows, place);
  for (int64_t index : rows) {
    std::memcpy(place, source + index * row_bytes, row_bytes);
    place += row_bytes;
  }
}

Tensor GatherRows(const Tensor& source, std::span<const int64_t> rows) {
  const ops::Shape row = source.shape().DropFirst();
  Tensor gathered = Tensor::Empty(row.Prepend(static_cast<int64_t>(rows.size())), source.options());
  CopyRows(source.raw_data(), rows, row.num_elements() * SizeOf(source.dtype()),
           gathered.raw_data());
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

void Dataset::CheckIndices(std::span<const int64_t> indices) const {
  const int64_t count = size();
  for (int64_t index : indices) {
    if (index < 0 || index >= count) {
      throw std::out_of_range(fmt::format("example {} of a dataset of {}", index, count));
    }
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
  CheckIndices({&index, 1});
  return {Row(inputs_, index), Row(targets_, index)};
}

Batch TensorDataset::GetBatch(std::span<const int64_t> indices) const {
  CheckIndices(indices);
  return {GatherRows(inputs_, indices), GatherRows(targets_, indices)};
}

}  // namespace ddp
