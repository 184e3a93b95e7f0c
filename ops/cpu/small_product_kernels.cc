#include "ops/cpu/small_product_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// op(B) row by row, each row followed by zeros up to `stride` elements.
template <class T>
void Pack(const MatrixProduct<T>& product, int64_t stride, T* packed) {
  const int64_t row_step = product.transpose_b ? 1 : product.b_stride;
  const int64_t column_step = product.transpose_b ? product.b_stride : 1;
  for (int64_t p = 0; p < product.k; ++p) {
    T* const row = packed + p * stride;
    const T* const from = product.b + p * row_step;
    int64_t j = 0;
    for (; j < product.n; ++j) row[j] = from[j * column_step];
    for (; j < stride; ++j) row[j] = 0;
  }
}

// Writes, or adds, the first `count` elements of a vector.
template <class T>
[[gnu::always_inline]] inline void StoreFirst(const T* values, int64_t count, bool accumulate,
                                              T* out) {
  for (int64_t j = 0; j < count; ++j) out[j] = accumulate ? out[j] + values[j] : values[j];
}

// kRows rows of C from row i on, and of these one vector from column j on.
template <int kRows, class T>
[[gnu::always_inline]] inline void Tile(const MatrixProduct<T>& product, const T* rows_of_b,
                                        int64_t stride, int64_t i, int64_t j) {
  constexpr int kWidth = VectorOf<T>::kWidth;
  const int64_t row_step = product.transpose_a ? 1 : product.a_stride;
  const int64_t column_step = product.transpose_a ? product.a_stride : 1;
  const T* a = product.a + i * row_step;
  Vector<T> sums[kRows] = {};
  for (int64_t p = 0; p < product.k; ++p) {
    Vector<T> b;
    __builtin_memcpy(&b, rows_of_b + p * stride + j, sizeof(b));
    for (int row = 0; row < kRows; ++row) sums[row] += a[row * row_step] * b;
    a += column_step;
  }
  for (int row = 0; row < kRows; ++row) {
    T values[kWidth];
    __builtin_memcpy(values, &sums[row], sizeof(values));
    T* const out = product.c + (i + row) * product.c_stride + j;
    if (j + kWidth <= product.n) {
      StoreFirst(values, kWidth, product.accumulate, out);
    } else {
      StoreFirst(values, product.n - j, product.accumulate, out);
    }
  }
}

template <class T>
void Multiply(const MatrixProduct<T>& product) {
  constexpr int kWidth = VectorOf<T>::kWidth;
  alignas(64) T packed[kMaxPackedElements];
  const T* rows_of_b = product.b;
  int64_t stride = product.b_stride;
  if (product.transpose_b || product.n % kWidth != 0) {
    stride = (product.n + kWidth - 1) / kWidth * kWidth;
    Pack(product, stride, packed);
    rows_of_b = packed;
  }
  for (int64_t j = 0; j < product.n; j += kWidth) {
    int64_t i = 0;
    for (; i + 4 <= product.m; i += 4) Tile<4>(product, rows_of_b, stride, i, j);
    for (; i < product.m; ++i) Tile<1>(product, rows_of_b, stride, i, j);
  }
}

}  // namespace

constinit const SmallProductKernels kSmallProductKernels = {Multiply<float>, Multiply<double>};

}  // namespace ops::cpu::OPS_CPU_ISA
