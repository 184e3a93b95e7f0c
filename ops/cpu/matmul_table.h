// Which library multiplies which float32 matrices: a fixed table over shapes and kinds of CPU, so
// that the same product has the same bits in every run.
#pragma once

#include <cstdint>

#include "ops/cpu/isa.h"

namespace ops::cpu {

enum class BlasLibrary { kOpenBlas, kOneDnn };

struct ProductShape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

BlasLibrary FastestLibrary(Isa isa, const ProductShape& shape);

// How a product is split over threads: into pieces of `extent` rows or columns of the result, all
// but the last. 1, 2, 4 or 8 of them, as many as cost one thread that takes them in turn little.
struct ProductSplit {
  bool rows;
  int64_t extent;
};
ProductSplit SplitProduct(BlasLibrary library, const ProductShape& shape);

}  // namespace ops::cpu
