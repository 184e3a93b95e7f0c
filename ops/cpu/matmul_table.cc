#include "ops/cpu/matmul_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ops::cpu {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

struct Row {
  bool transpose_a, transpose_b;
  int64_t min_m, min_k, max_k;
};

// With AVX2 oneDNN wins in these rows and OpenBLAS elsewhere. GFLOP/s of one thread, OpenBLAS
// 0.3.21 / oneDNN 2.6.3, on a Zen 3 whose peak is 103:
//   NT  64x1024x1024  80 /  81   512x1024x256  88 / 95   128x128x64  69 / 95   64x10x1024  41 / 48
//   NN  64x1024x1024  84 /  34   512x512x512   89 / 65   128x64x128  76 / 98
//   TN  1024x1024x64  72 /  87   1024x256x512  86 / 43
// and with oneDNN limited to AVX2 on a Zen 5: NN 64x1024x10 65 / 22; TN 10x1024x64 45 / 30.
constexpr Row kOneDnnOnAvx2[] = {
    {.transpose_a = false, .transpose_b = true, .min_m = 0, .min_k = 0, .max_k = kAny},
    {.transpose_a = false, .transpose_b = false, .min_m = 0, .min_k = 16, .max_k = 384},
    {.transpose_a = true, .transpose_b = false, .min_m = 64, .min_k = 0, .max_k = 128},
};

bool Matches(const Row& row, const ProductShape& shape) {
  return row.transpose_a == shape.transpose_a && row.transpose_b == shape.transpose_b &&
         shape.m >= row.min_m && shape.k >= row.min_k && shape.k <= row.max_k;
}

}  // namespace

BlasLibrary FastestLibrary(Isa isa, const ProductShape& shape) {
  switch (isa) {
    // On a Zen 5, OpenBLAS with AVX-512 / oneDNN: NT 64x1024x1024 133 / 126, NN 128 / 182, TN
    // 1024x1024x64 167 / 194, NN 1024x1024x1024 165 / 185, NT 128x128x64 157 / 184. OpenBLAS is
    // clearly ahead in NT 64x10x1024, 119 / 70, and TN 1024x256x512, 186 / 149: not enough to load
    // a second library. Where OPENBLAS_CORETYPE holds it to AVX2, it is ahead in NN 64x1024x10
    // alone, 75 / 48.
    case Isa::kAvx512:
      return BlasLibrary::kOneDnn;
    case Isa::kAvx2:
      for (const Row& row : kOneDnnOnAvx2) {
        if (Matches(row, shape)) return BlasLibrary::kOneDnn;
      }
      return BlasLibrary::kOpenBlas;
    // oneDNN knows SSE4.1 at least, and is slow without AVX.
    case Isa::kBaseline:
      break;
  }
  return BlasLibrary::kOpenBlas;
}

// Pieces of some 32 million multiplications, not thinner than 256. On a Zen 5, halves in
// turn took one thread 6 % less time than the whole NT 64x1024x1024, 8 % less for NN, and 1.5 %
// more for TN 1024x1024x64; quarters took 4 % and 10 % more for the last two. Not measured with
// AVX2.
ProductSplit SplitProduct(const ProductShape& shape) {
  constexpr double kMultiplications = 1 << 25;
  constexpr int64_t kMinExtent = 256, kMultiple = 64;
  const bool rows = shape.m >= shape.n;
  const int64_t extent = rows ? shape.m : shape.n;
  const double work =
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const double wanted = std::round(work / kMultiplications);
  const double most = static_cast<double>(extent / kMinExtent);
  const auto pieces = std::max<int64_t>(1, static_cast<int64_t>(std::min(wanted, most)));
  const int64_t even = (extent + pieces - 1) / pieces;
  return {rows, pieces == 1 ? extent : (even + kMultiple - 1) / kMultiple * kMultiple};
}

}  // namespace ops::cpu
