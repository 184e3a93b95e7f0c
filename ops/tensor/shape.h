// The extents of a tensor, outermost first: Shape{64, 784}. Shape{} is a scalar. At most
// Shape::kMaxRank dimensions; kept inline, so that a shape costs no allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace ops {

class Shape {
 public:
  static constexpr int kMaxRank = 6;
  static constexpr int64_t kMaxElements = int64_t{1} << 59;  // so that bytes fit an int64_t

  Shape() = default;
  // Throws std::invalid_argument for a negative extent, more than kMaxRank of them, or more than
  // kMaxElements.
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  // Extent of a dimension; negative counts from the last: dim(-1) is the innermost.
  int64_t dim(int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  int64_t operator[](int i) const { return dim(i); }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  // Product of all extents; 1 for a scalar.
  int64_t num_elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }

  // The shape with `extent` put before the first dimension.
  Shape Prepend(int64_t extent) const;
  // The shape without its first dimension.
  Shape DropFirst() const { return Shape(dims().subspan(1)); }

  std::string ToString() const;  // "[64, 784]"

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};  // unused ones stay 0
  int rank_ = 0;
};

// The shape of a op b for elementwise operations, by NumPy's rule: aligned at the innermost
// dimension, extents must be equal or one of them 1. Throws std::invalid_argument with
// `operation` and both shapes.
Shape BroadcastShapes(const char* operation, const Shape& a, const Shape& b);

}  // namespace ops
