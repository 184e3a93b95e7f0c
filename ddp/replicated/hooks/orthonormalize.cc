#include "ddp/replicated/hooks/orthonormalize.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace ddp {
namespace {

// What is left of a row below this share of its length is what float32 rounded off.
constexpr double kVanishing = 1e-7;

using Row = std::span<float>;

double Dot(Row a, Row b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double Norm(Row row) { return std::sqrt(Dot(row, row)); }

// row -= what of it lies along the unit vector.
void RemoveAlong(Row unit, Row row) {
  const double share = Dot(unit, row);
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(row[i] - share * unit[i]);
  }
}

}  // namespace

std::vector<int64_t> Orthonormalize(const ops::Tensor& vectors, double epsilon) {
  const int64_t count = vectors.dim(0), length = vectors.dim(1);
  const auto row = [&](int64_t i) { return vectors.elements<float>().subspan(i * length, length); };
  std::vector<int64_t> vanished;
  for (int64_t i = 0; i < count; ++i) {
    const double before = Norm(row(i));
    // Once isn't enough where little is left: rounding brings some of the others back.
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < i; ++j) RemoveAlong(row(j), row(i));
    }
    const double norm = Norm(row(i));
    if (std::isfinite(norm) && norm <= kVanishing * before) {
      std::ranges::fill(row(i), 0.0f);
      vanished.push_back(i);
    } else {
      for (float& value : row(i)) value = static_cast<float>(value / (norm + epsilon));
    }
  }
  return vanished;
}

}  // namespace ddp
