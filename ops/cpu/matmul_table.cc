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

// Which sides a library packs once a call, and so once a piece. Microseconds of one thread for
// 1, 4 and 8 pieces of rows / of columns, oneDNN with AVX-512 on a Zen 5:
//   NT 512x256x1024  1570 1775 2327 / 1825 1733      NT 64x1024x1024  1162 2764 1534 / 1151 1134
//   NN 512x1024x256  1449 1456 1485 / 1600 1591      NN 64x1024x1024   763  797  805 /  792  795
//   TN 256x1024x512  1412 1644 1920 / 1480 1611      TN 768x256x512   1045 1079 1070 / 1128 1069
bool SplitsRows(const ProductShape& shape) {
  constexpr int64_t kEnough = 256;
  if (shape.transpose_a == shape.transpose_b && shape.m >= kEnough) return true;    // NN
  if (shape.transpose_b && !shape.transpose_a && shape.n >= kEnough) return false;  // NT
  return shape.m >= shape.n;
}

// A hand-over costs a few microseconds, 8 million multiplications some 80. OpenBLAS packs more:
// 8 pieces cost it 10 % and more, 4 pieces 3 to 5 %. Where k is short, so does oneDNN.
int64_t WantedPieces(BlasLibrary library, const ProductShape& shape) {
  constexpr double kMillion = 1 << 20;
  const double work =
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  if (work >= 64 * kMillion && library == BlasLibrary::kOneDnn && shape.k >= 128) return 8;
  if (work >= 32 * kMillion) return 4;
  return work >= 8 * kMillion ? 2 : 1;
}

}  // namespace

ProductSplit SplitProduct(BlasLibrary library, const ProductShape& shape) {
  constexpr int64_t kMinExtent = 64, kMultiple = 32;
  const bool rows = SplitsRows(shape);
  const int64_t extent = rows ? shape.m : shape.n;
  const int64_t most = std::max<int64_t>(1, extent / kMinExtent);
  const int64_t pieces = std::min(WantedPieces(library, shape), most);
  const int64_t even = (extent + pieces - 1) / pieces;
  return {rows, pieces == 1 ? extent : (even + kMultiple - 1) / kMultiple * kMultiple};
}

}  // namespace ops::cpu
