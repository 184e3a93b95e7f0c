// Many tensors as one range: optimizers walk over all parameters of a model in one pass, however
// small each of them is.
//
//   FlatRange range(DType::kFloat32);
//   range.Add(weight, Grad(weight), /*state_begin=*/0, step);
//   range.Add(bias, Grad(bias), weight.num_elements(), step);
//   AdamStep(range, first_moment, second_moment, options);  // ops/cpu/optimizer.h
//
// The range is made of segments, in each of which parameters, gradients and states lie one after
// the other in memory: neighbours in memory, as inside a communication bucket, become one segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

struct FlatSegment {
  int64_t begin;  // in the range: where the segment before it ends
  int64_t count;
  std::byte* parameter;
  std::byte* gradient;  // null: there is none
  int64_t state_begin;  // where its states begin, in elements of the state tensors
  int64_t step;         // how many steps its parameters have taken, this one included
};

class FlatRange {
 public:
  // Of parameters and gradients; each of their elements has its states in StateDType(dtype).
  explicit FlatRange(DType dtype) : dtype_(dtype) {}

  // Memory for so many tensors, so that Add allocates none.
  void Reserve(int64_t num_tensors) { segments_.reserve(num_tensors); }
  void Clear() { segments_.clear(); }
  // The range points at the tensors' memory and doesn't keep it alive. `gradient` may be undefined.
  void Add(const Tensor& parameter, const Tensor& gradient, int64_t state_begin, int64_t step);
  // Only the rows `ids` [n] (int64, each once) of a parameter [count, width]; their gradients are
  // `rows` [n, width]. `state_begin` is where the states of the whole parameter begin.
  void AddRows(const Tensor& parameter, const Tensor& ids, const Tensor& rows, int64_t state_begin,
               int64_t step);

  DType dtype() const { return dtype_; }
  const std::vector<FlatSegment>& segments() const { return segments_; }
  int64_t num_elements() const {
    return segments_.empty() ? 0 : segments_.back().begin + segments_.back().count;
  }

  // Calls body(segment, from, to) for the parts of segments that make up [begin, end): elements
  // [from, to) of each segment.
  void ForEachPart(
      int64_t begin, int64_t end,
      absl::FunctionRef<void(const FlatSegment&, int64_t from, int64_t to)> body) const;

 private:
  void Append(const FlatSegment& next);

  DType dtype_;
  std::vector<FlatSegment> segments_;
};

// The dtype of what an optimizer remembers of a parameter: float32 for bfloat16 and float16.
constexpr DType StateDType(DType parameter) {
  return parameter == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

}  // namespace ops::cpu
