#include "ops/tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace ops {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > kMaxRank) {
    throw std::invalid_argument(fmt::format("a shape has at most {} dimensions, got [{}]", kMaxRank,
                                            fmt::join(dims, ", ")));
  }
  int64_t num_elements = 1;
  for (int64_t extent : dims) {
    if (extent < 0) {
      throw std::invalid_argument(
          fmt::format("negative extent in shape [{}]", fmt::join(dims, ", ")));
    }
    if (__builtin_mul_overflow(num_elements, extent, &num_elements) ||
        num_elements > kMaxElements) {
      throw std::invalid_argument(
          fmt::format("more than 2^59 elements in shape [{}]", fmt::join(dims, ", ")));
    }
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Shape Shape::Prepend(int64_t extent) const {
  if (rank_ == kMaxRank) {
    throw std::invalid_argument(
        fmt::format("can't add a dimension to {}: at most {}", ToString(), kMaxRank));
  }
  std::array<int64_t, kMaxRank> dims;
  dims[0] = extent;
  std::copy_n(dims_.begin(), rank_, dims.begin() + 1);
  return Shape(std::span<const int64_t>(dims.data(), rank_ + 1));
}

std::string Shape::ToString() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

Shape BroadcastShapes(const char* operation, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  std::array<int64_t, Shape::kMaxRank> dims;
  std::copy(longer.dims().begin(), longer.dims().end(), dims.begin());
  for (int i = 1; i <= shorter.rank(); ++i) {
    int64_t& extent = dims[longer.rank() - i];
    const int64_t other = shorter.dim(-i);
    if (extent == other || other == 1) continue;
    if (extent != 1) {
      throw std::invalid_argument(fmt::format("{}: shapes {} and {} don't broadcast", operation,
                                              a.ToString(), b.ToString()));
    }
    extent = other;
  }
  return Shape(std::span<const int64_t>(dims.data(), longer.rank()));
}

}  // namespace ops
