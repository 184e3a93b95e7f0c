// Products of small matrices that lie in the caches, and transposition, for kernel sources: see
// kernel_element.h.
#pragma once

#include <utility>

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// C[m, n] = or += A[m, k] B[k, n]. Rows of B and C are whole vectors: what fills them up is
// calculated with, but never gets into another column.
template <class T>
struct PanelProduct {
  int64_t m, n, k;
  const T* a;
  int64_t a_row_step, a_column_step;  // A transposed has a row step of 1
  const T* b;
  int64_t b_stride;
  T* c;
  int64_t c_stride;
  bool accumulate;
};

template <class T>
[[gnu::always_inline]] inline Vector<T> LoadVector(const T* from) {
  Vector<T> vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <class T>
[[gnu::always_inline]] inline void StoreVector(const Vector<T>& vector, T* to) {
  __builtin_memcpy(to, &vector, sizeof(vector));
}

// Sums that stay in registers while k runs: kRows rows of C from row i on, kVectors vectors of each
// from column j on.
template <int kRows, int kVectors, class T>
[[gnu::always_inline]] inline void PanelTile(const PanelProduct<T>& p, int64_t i, int64_t j) {
  constexpr int kWidth = VectorOf<T>::kWidth;
  const T* a = p.a + i * p.a_row_step;
  const T* b = p.b + j;
  T* const c = p.c + i * p.c_stride + j;
  Vector<T> sums[kRows][kVectors] = {};
  for (int64_t step = 0; step < p.k; ++step, a += p.a_column_step, b += p.b_stride) {
    Vector<T> right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = LoadVector(b + v * kWidth);
    for (int row = 0; row < kRows; ++row) {
      for (int v = 0; v < kVectors; ++v) sums[row][v] += a[row * p.a_row_step] * right[v];
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      T* const out = c + row * p.c_stride + v * kWidth;
      StoreVector(p.accumulate ? LoadVector(out) + sums[row][v] : sums[row][v], out);
    }
  }
}

template <int kVectors, class T>
[[gnu::always_inline]] inline void PanelColumns(const PanelProduct<T>& p, int64_t j) {
  // As many sums as hide an addition's latency and fit the registers beside B's vectors.
  constexpr int kRows = kVectorBytes == 64 ? 8 : kVectorBytes == 32 ? 6 : 4;
  int64_t i = 0;
  for (; i + kRows <= p.m; i += kRows) PanelTile<kRows, kVectors>(p, i, j);
  for (; i + 2 <= p.m; i += 2) PanelTile<2, kVectors>(p, i, j);
  if (i < p.m) PanelTile<1, kVectors>(p, i, j);
}

template <class T>
[[gnu::noinline]] void Multiply(const PanelProduct<T>& p) {
  constexpr int64_t kWidth = VectorOf<T>::kWidth;
  int64_t j = 0;
  for (; j + kWidth < p.n; j += 2 * kWidth) PanelColumns<2>(p, j);
  if (j < p.n) PanelColumns<1>(p, j);
}

// Every second element of the result from a, the others from b, of each those from kFirst on.
template <int kFirst, class V, int... kIndices>
[[gnu::always_inline]] inline V Interleave(V a, V b, std::integer_sequence<int, kIndices...>) {
  constexpr int kWidth = sizeof...(kIndices);
  return __builtin_shufflevector(a, b, (kFirst + kIndices / 2 + kIndices % 2 * kWidth)...);
}

// A square of vectors. Interleaving row i with row i + kWidth / 2 rotates the bits of an element's
// row and column, written one after the other, by one; half a turn exchanges them.
template <class T>
[[gnu::always_inline]] inline void TransposeSquare(const T* from, int64_t from_stride, T* to,
                                                   int64_t to_stride) {
  constexpr int kWidth = VectorOf<T>::kWidth, kHalf = kWidth / 2;
  constexpr std::make_integer_sequence<int, kWidth> kIndices;
  Vector<T> rows[kWidth], next[kWidth];
  for (int i = 0; i < kWidth; ++i) rows[i] = LoadVector(from + i * from_stride);
  for (int turn = 1; turn < kWidth; turn *= 2) {
    for (int i = 0; i < kHalf; ++i) {
      next[2 * i] = Interleave<0>(rows[i], rows[i + kHalf], kIndices);
      next[2 * i + 1] = Interleave<kHalf>(rows[i], rows[i + kHalf], kIndices);
    }
    for (int i = 0; i < kWidth; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < kWidth; ++i) StoreVector(rows[i], to + i * to_stride);
}

// to[columns, rows] = from[rows, columns] transposed; both extents are multiples of a vector.
template <class T>
[[gnu::noinline]] void TransposePanel(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kWidth = VectorOf<T>::kWidth;
  for (int64_t i = 0; i < rows; i += kWidth) {
    for (int64_t j = 0; j < columns; j += kWidth) {
      TransposeSquare(from + i * columns + j, columns, to + j * rows + i, rows);
    }
  }
}

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
