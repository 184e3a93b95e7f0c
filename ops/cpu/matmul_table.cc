#include "ops/cpu/matmul_table.h"

#include <algorithm>
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

namespace {

// Every piece packs anew the factor that isn't cut. What one thread loses that takes all pieces in
// turn, in percent, for 2, 4 and 8 pieces of rows / of columns, oneDNN with AVX-512 on a Zen 5:
//   NT 512x1024x256   2  5 14 /  1  3  4      NT 512x256x1024   5 18 43 /  2 27 15
//   NN 512x1024x256   0  0  2 /  1  4  6      NN 64x1024x1024   3  3  3 /  4  5  7
//   TN 512x256x512    1  1  2 /  1 12  5      TN 256x1024x512   8 13 31 /  3 10 15
// OpenBLAS loses 3 to 5 with 4 pieces, 10 and more with 8, and less where the longer side is cut.
constexpr int64_t kManyRows = 256;

bool SplitsRows(const ProductShape& shape) {
  const bool as_stored = !shape.transpose_a && !shape.transpose_b;
  if (as_stored && shape.m >= kManyRows) return true;
  const bool b_transposed = !shape.transpose_a && shape.transpose_b;
  return shape.m >= shape.n && !(b_transposed && shape.n >= kManyRows);
}

// A hand-over costs a few microseconds, 8 million multiplications some 80.
int64_t WantedPieces(BlasLibrary library, const ProductShape& shape, bool rows) {
  constexpr double kMillion = 1 << 20;
  const double work =
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  if (work < 8 * kMillion) return 1;
  if (work >= 256 * kMillion) return library == BlasLibrary::kOneDnn ? 8 : 4;
  const bool cheap = shape.m >= kManyRows && (rows || shape.transpose_b);
  return work >= 32 * kMillion && cheap ? 4 : 2;
}

}  // namespace

ProductSplit SplitProduct(BlasLibrary library, const ProductShape& shape) {
  constexpr int64_t kMinRows = 64, kMinColumns = 128, kMultiple = 32;
  // Halves may be smaller: NT 64x128x1568 loses 5 percent by two pieces of columns.
  constexpr int64_t kMinHalf = 64;
  const bool rows = SplitsRows(shape);
  const int64_t extent = rows ? shape.m : shape.n;
  const int64_t most =
      std::max<int64_t>(extent >= 2 * kMinHalf ? 2 : 1, extent / (rows ? kMinRows : kMinColumns));
  const int64_t pieces = std::min(WantedPieces(library, shape, rows), most);
  const int64_t even = (extent + pieces - 1) / pieces;
  return {rows, pieces == 1 ? extent : (even + kMultiple - 1) / kMultiple * kMultiple};
}

}  // namespace ops::cpu
