#include "ops/cpu/small_product_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// op(B) row by row, each row followed by zeros up to `stride` elements, a multiple of a vector.
template <class T>
void Pack(const MatrixProduct<T>& product, int64_t stride, T* packed) {
  const int64_t n = product.n, k = product.k, b_stride = product.b_stride;
  const int64_t whole = n / VectorOf<T>::kWidth * VectorOf<T>::kWidth;
  if (whole < n) {
    const Vector<T> zero = {};
    for (int64_t p = 0; p < k; ++p)
      __builtin_memcpy(packed + p * stride + whole, &zero, sizeof(zero));
  }
  if (!product.transpose_b) {
    for (int64_t p = 0; p < k; ++p) {
      ForEach(n, [&, p](int64_t j) { packed[p * stride + j] = product.b[p * b_stride + j]; });
    }
    return;
  }
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const T* const b = product.b + j * b_stride;
    for (int64_t p = 0; p < k; ++p) {
      T* const out = packed + p * stride + j;
      out[0] = b[p];
      out[1] = b[p + b_stride];
      out[2] = b[p + 2 * b_stride];
      out[3] = b[p + 3 * b_stride];
    }
  }
  for (; j < n; ++j) {
    for (int64_t p = 0; p < k; ++p) packed[p * stride + j] = product.b[j * b_stride + p];
  }
}

// Writes, or adds, the first `count` elements of a vector, or all if it has fewer.
template <class T>
[[gnu::always_inline]] inline void Store(const Vector<T>& sums, int64_t count, bool accumulate,
                                         T* out) {
  constexpr int64_t kWidth = VectorOf<T>::kWidth;
  if (count >= kWidth) {
    Vector<T> values = {};
    if (accumulate) __builtin_memcpy(&values, out, sizeof(values));
    values += sums;
    __builtin_memcpy(out, &values, sizeof(values));
  } else {
    T values[kWidth];
    __builtin_memcpy(values, &sums, sizeof(values));
    for (int64_t j = 0; j < count; ++j) out[j] = accumulate ? out[j] + values[j] : values[j];
  }
}

// kRows rows of C from row i on, and of these kVectors vectors from column j on. Rows of B are
// whole vectors; what reaches beyond a row of C isn't written.
template <int kRows, int kVectors, class T>
[[gnu::always_inline]] inline void Tile(const MatrixProduct<T>& product, const T* rows_of_b,
                                        int64_t stride, int64_t i, int64_t j) {
  constexpr int kWidth = VectorOf<T>::kWidth;
  const int64_t row_step = product.transpose_a ? 1 : product.a_stride;
  const int64_t column_step = product.transpose_a ? product.a_stride : 1;
  const T* a = product.a + i * row_step;
  const T* b = rows_of_b + j;
  Vector<T> sums[kRows][kVectors] = {};
  for (int64_t p = 0; p < product.k; ++p, a += column_step, b += stride) {
    for (int v = 0; v < kVectors; ++v) {
      Vector<T> right;
      __builtin_memcpy(&right, b + v * kWidth, sizeof(right));
      for (int row = 0; row < kRows; ++row) sums[row][v] += a[row * row_step] * right;
    }
  }
  for (int row = 0; row < kRows; ++row) {
    T* const out = product.c + (i + row) * product.c_stride + j;
    for (int v = 0; v < kVectors; ++v) {
      Store(sums[row][v], product.n - j - v * kWidth, product.accumulate, out + v * kWidth);
    }
  }
}

// kVectors vectors of all rows.
template <int kVectors, class T>
[[gnu::always_inline]] inline void Columns(const MatrixProduct<T>& product, const T* rows_of_b,
                                           int64_t stride, int64_t j) {
  int64_t i = 0;
  for (; i + 4 <= product.m; i += 4) Tile<4, kVectors>(product, rows_of_b, stride, i, j);
  for (; i < product.m; ++i) Tile<1, kVectors>(product, rows_of_b, stride, i, j);
}

template <class T>
void Multiply(const MatrixProduct<T>& product) {
  constexpr int64_t kWidth = VectorOf<T>::kWidth;
  alignas(64) T packed[kMaxPackedElements];
  const T* rows_of_b = product.b;
  int64_t stride = product.b_stride;
  if (product.transpose_b || product.n % kWidth != 0) {
    stride = (product.n + kWidth - 1) / kWidth * kWidth;
    Pack(product, stride, packed);
    rows_of_b = packed;
  }
  int64_t j = 0;
  for (; product.n - j > kWidth; j += 2 * kWidth) Columns<2>(product, rows_of_b, stride, j);
  if (j < product.n) Columns<1>(product, rows_of_b, stride, j);
}

}  // namespace

constinit const SmallProductKernels kSmallProductKernels = {Multiply<float>, Multiply<double>};

}  // namespace ops::cpu::OPS_CPU_ISA
