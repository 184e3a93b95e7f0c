// Elements moved to other places, on the CPU: every dtype, bit by bit. Only where a gradient is
// added to what is there (`accumulate`: floating point dtypes) is anything calculated.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// Dimension i of out is dimension dims[i] of x.
void Permute(const Tensor& x, std::span<const int> dims, const Tensor& out,
             bool accumulate = false);

// x repeated along the dimensions of out that it lacks or has as extent 1, aligned at the
// innermost.
void Expand(const Tensor& x, const Tensor& out);

// Where a box begins, by dimension; those behind the tensor's rank aren't looked at.
using BoxBegin = std::array<int64_t, Shape::kMaxRank>;

// Copies a box of elements: from[from_begin + i] to to[to_begin + i] for i in `extents`. The box
// is all of `from` or all of `to`.
void CopyBox(const Tensor& from, const BoxBegin& from_begin, const Tensor& to,
             const BoxBegin& to_begin, const Shape& extents, bool accumulate = false);

// Makes `value` of everything in `to` that isn't in the box.
void FillOutside(const Tensor& to, const BoxBegin& begin, const Shape& extents, double value);

}  // namespace ops::cpu
