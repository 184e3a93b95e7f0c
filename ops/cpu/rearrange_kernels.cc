#include "ops/cpu/rearrange_kernels.h"

#include <algorithm>
#include <utility>

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// Rows of a square block that is transposed in registers.
template <class T>
struct Row {
  static constexpr int kLanes = kVectorBytes / sizeof(T) < 16 ? kVectorBytes / sizeof(T) : 16;
  typedef T Type __attribute__((vector_size(kLanes * sizeof(T))));

  Type lanes;

  // a and b shuffled like cards, of which this is the first half (kHalf = 0) or the second.
  template <int kHalf, size_t... kLane>
  [[gnu::always_inline]] static inline Type Interleave(Type a, Type b,
                                                       std::index_sequence<kLane...>) {
    return __builtin_shufflevector(
        a, b, (kHalf * kLanes / 2 + kLane / 2 + kLane % 2 * static_cast<size_t>(kLanes))...);
  }
};

// Shuffling the first half of the rows with the second, log2(lanes) times, transposes them.
template <class T>
[[gnu::always_inline]] inline void TransposeBlock(const T* x, int64_t x_stride, T* out,
                                                  int64_t out_stride) {
  constexpr int kLanes = Row<T>::kLanes;
  constexpr auto kEach = std::make_index_sequence<kLanes>();
  typename Row<T>::Type rows[kLanes], shuffled[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) __builtin_memcpy(&rows[i], x + i * x_stride, sizeof(rows[i]));
#pragma GCC unroll 4
  for (int step = 1; step < kLanes; step *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      const auto a = rows[i], b = rows[i + kLanes / 2];
      shuffled[2 * i] = Row<T>::template Interleave<0>(a, b, kEach);
      shuffled[2 * i + 1] = Row<T>::template Interleave<1>(a, b, kEach);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = shuffled[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    __builtin_memcpy(out + i * out_stride, &rows[i], sizeof(rows[i]));
  }
}

template <class T>
void TransposeEdge(const T* x, int64_t x_stride, T* out, int64_t out_stride, int64_t rows,
                   int64_t columns) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) out[j * out_stride + i] = x[i * x_stride + j];
  }
}

// In bands of rows whose cache lines stay in L1 until the blocks have used all of each.
template <class T>
void Transpose(const void* from, int64_t x_stride, void* to, int64_t out_stride, int64_t rows,
               int64_t columns) {
  constexpr int64_t kLanes = Row<T>::kLanes, kBand = 64;
  const T* x = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  const int64_t whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
  for (int64_t band = 0; band < whole_rows; band += kBand) {
    const int64_t band_end = std::min(band + kBand, whole_rows);
    for (int64_t j = 0; j < whole_columns; j += kLanes) {
      for (int64_t i = band; i < band_end; i += kLanes) {
        TransposeBlock(x + i * x_stride + j, x_stride, out + j * out_stride + i, out_stride);
      }
    }
  }
  TransposeEdge(x + whole_rows * x_stride, x_stride, out + whole_rows, out_stride,
                rows - whole_rows, columns);
  TransposeEdge(x + whole_columns, x_stride, out + whole_columns * out_stride, out_stride,
                whole_rows, columns - whole_columns);
}

template <class T>
void Copy(const void* from, int64_t x_stride, void* to, int64_t out_stride, int64_t n) {
  const T* x = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  if (x_stride == 0 && out_stride == 1) {
    const T value = *x;
    ForEach(n, [=](int64_t i) { out[i] = value; });
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i * out_stride] = x[i * x_stride];
}

template <class T>
void Add(const void* from, int64_t x_stride, void* to, int64_t out_stride, int64_t n) {
  const T* x = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  if (x_stride == 1 && out_stride == 1) {
    ForEach(n, [=](int64_t i) { out[i] = Round<T>(Load(out[i]) + Load(x[i])); });
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    T& sum = out[i * out_stride];
    sum = Round<T>(Load(sum) + Load(x[i * x_stride]));
  }
}

}  // namespace

constinit const RearrangeKernels kRearrangeKernels = {
    .transpose = {Transpose<uint8_t>, Transpose<uint16_t>, Transpose<uint32_t>,
                  Transpose<uint64_t>},
    .copy = {Copy<uint8_t>, Copy<uint16_t>, Copy<uint32_t>, Copy<uint64_t>},
    .add = {Add<float>, Add<double>, Add<BFloat16>, Add<Float16>},
};

}  // namespace ops::cpu::OPS_CPU_ISA
