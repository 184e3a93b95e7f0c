#include "ops/cpu/pooling_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// Windows [begin, end), whose element `tap` lies inside the plane.
struct Range {
  int64_t begin, end;
};

Range Inside(const PoolingAxis& axis, int64_t tap) {
  const int64_t before = axis.padding - tap;  // how far outside the first window's element lies
  const int64_t begin = before > 0 ? (before + axis.stride - 1) / axis.stride : 0;
  const int64_t last = axis.in - 1 + before;  // how far the last element is from the first window's
  const int64_t end = last < 0 ? 0 : last / axis.stride + 1;
  return {begin, end < axis.out ? end : axis.out};
}

// The first element of window i that lies inside.
int64_t FirstTap(const PoolingAxis& axis, int64_t i) {
  const int64_t outside = axis.padding - i * axis.stride;
  return outside > 0 ? outside : 0;
}

// As wide as the values that it stands beside, so that both fill the same vectors.
template <class C>
using Tap = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;

// a where `choose`, else b: by masks, as a branch would be guessed wrongly half of the time.
template <class V>
[[gnu::always_inline]] inline V Select(bool choose, V a, V b) {
  using Bits = Tap<V>;
  const Bits mask = -static_cast<Bits>(choose);
  return __builtin_bit_cast(V, static_cast<Bits>((__builtin_bit_cast(Bits, a) & mask) |
                                                 (__builtin_bit_cast(Bits, b) & ~mask)));
}

// NaN beats everything, and another NaN too.
template <class C>
[[gnu::always_inline]] inline void Compete(C value, Tap<C> tap, C& largest, Tap<C>& winner) {
  const bool wins = (value > largest) | (value != value);
  winner = Select(wins, tap, winner);
  largest = Select(wins, value, largest);
}

// Lets one element of each of n windows compete; kStride is 0 for a stride known at run time only.
template <class T, int kStride>
void CompeteAll(const T* x, int64_t stride, Tap<Compute<T>> tap, int64_t n, Compute<T>* largest,
                Tap<Compute<T>>* winners) {
  ForEach(n, [=](int64_t j) {
    Compete(Load(x[j * (kStride > 0 ? kStride : stride)]), tap, largest[j], winners[j]);
  });
}

template <class T>
void MaxOfRow(const MaxOfTaps& p, int64_t i, Compute<T>* largest, Tap<Compute<T>>* winners) {
  const PoolingAxis &height = p.height, &width = p.width;
  const int64_t top = i * height.stride - height.padding;
  const int64_t first_row = FirstTap(height, i);
  for (int64_t j = 0; j < width.out; ++j) {
    largest[j] = -__builtin_inf();
    winners[j] = static_cast<Tap<Compute<T>>>(first_row * width.kernel + FirstTap(width, j));
  }
  const auto compete = width.stride == 1   ? CompeteAll<T, 1>
                       : width.stride == 2 ? CompeteAll<T, 2>
                                           : CompeteAll<T, 0>;
  for (int64_t row = first_row; row < height.kernel && top + row < height.in; ++row) {
    const T* const x = static_cast<const T*>(p.x) + (top + row) * width.in - width.padding;
    for (int64_t column = 0; column < width.kernel; ++column) {
      const auto [begin, end] = Inside(width, column);
      compete(x + begin * width.stride + column, width.stride,
              static_cast<Tap<Compute<T>>>(row * width.kernel + column), end - begin,
              largest + begin, winners + begin);
    }
  }
}

template <class T>
void MaxPool(const MaxOfTaps& p) {
  auto* const largest = static_cast<Compute<T>*>(p.row);
  auto* const winners = reinterpret_cast<Tap<Compute<T>>*>(largest + p.width.out);
  for (int64_t i = 0; i < p.height.out; ++i) {
    MaxOfRow<T>(p, i, largest, winners);
    T* const y = static_cast<T*>(p.y) + i * p.width.out;
    uint8_t* const taps = p.taps + i * p.width.out;
    ForEach(p.width.out, [=](int64_t j) {
      y[j] = Round<T>(largest[j]);
      taps[j] = static_cast<uint8_t>(winners[j]);
    });
  }
}

// f(count, i) for pieces of `count`, known to the compiler, that cover [0, n); the last two may
// overlap.
template <int kCount = 8, class F>
[[gnu::always_inline]] inline void CoverByPieces(int64_t n, F f) {
  if (n >= kCount) {
    for (int64_t i = 0; i + kCount <= n; i += kCount) f(std::integral_constant<int, kCount>(), i);
    if (n % kCount != 0) f(std::integral_constant<int, kCount>(), n - kCount);
  } else if constexpr (kCount > 1) {
    CoverByPieces<kCount / 2>(n, f);
  }
}

// `count` windows side by side, known to the compiler.
template <class T>
[[gnu::always_inline]] inline void MaxOfFourPiece(const T* upper, const T* lower, auto count, T* y,
                                                  uint8_t* taps) {
  using C = Compute<T>;
  ForEach(count, [=](int64_t j) {
    C largest = Load(upper[2 * j]);
    Tap<C> winner = 0;
    Compete<C>(Load(upper[2 * j + 1]), 1, largest, winner);
    Compete<C>(Load(lower[2 * j]), 2, largest, winner);
    Compete<C>(Load(lower[2 * j + 1]), 3, largest, winner);
    y[j] = Round<T>(largest);
    taps[j] = static_cast<uint8_t>(winner);
  });
}

template <class T>
void MaxOfFour(const MaxOfTaps& p) {
  const int64_t columns = p.width.out;
  for (int64_t i = 0; i < p.height.out; ++i) {
    const T* const upper = static_cast<const T*>(p.x) + 2 * i * p.width.in;
    const T* const lower = upper + p.width.in;
    T* const y = static_cast<T*>(p.y) + i * columns;
    uint8_t* const taps = p.taps + i * columns;
    // A short row takes a whole piece too: the rows that follow overwrite what it has too much.
    if (columns < 8 && (p.height.out - i) * columns >= 8) {
      MaxOfFourPiece(upper, lower, std::integral_constant<int, 8>(), y, taps);
      continue;
    }
    CoverByPieces(columns, [=](auto count, int64_t j) {
      MaxOfFourPiece(upper + 2 * j, lower + 2 * j, count, y + j, taps + j);
    });
  }
}

template <class T>
void MaxPoolBackward(const MaxOfTapsBackward& p) {
  const PoolingAxis &height = p.height, &width = p.width;
  int64_t offsets[256];  // of taps, in the plane
  for (int64_t tap = 0; tap < height.kernel * width.kernel; ++tap) {
    offsets[tap] = tap / width.kernel * width.in + tap % width.kernel;
  }
  auto* const gradient = static_cast<Compute<T>*>(p.gradient);
  for (int64_t i = 0; i < height.out; ++i) {
    const T* const dy = static_cast<const T*>(p.dy) + i * width.out;
    const uint8_t* const taps = p.taps + i * width.out;
    int64_t corner = (i * height.stride - height.padding) * width.in - width.padding;
    for (int64_t j = 0; j < width.out; ++j, corner += width.stride) {
      gradient[corner + offsets[taps[j]]] += Load(dy[j]);
    }
  }
}

// Rows `upper` and `lower` of the plane, under n windows.
template <class T, bool kAccumulate>
void MaxOfFourBackwardRows(const T* dy, const uint8_t* taps, int64_t n, T* upper, T* lower) {
  using C = Compute<T>;
  const auto put = [](C value, T* out) {
    *out = Round<T>(kAccumulate ? Load(*out) + value : value);
  };
  const auto put_window = [=](int64_t j) {
    const C arriving = Load(dy[j]);
    const Tap<C> winner = taps[j];
    put(Select<C>(winner == 0, arriving, 0), upper + 2 * j);
    put(Select<C>(winner == 1, arriving, 0), upper + 2 * j + 1);
    put(Select<C>(winner == 2, arriving, 0), lower + 2 * j);
    put(Select<C>(winner == 3, arriving, 0), lower + 2 * j + 1);
  };
  if constexpr (kAccumulate) {
    ForEach(n, put_window);
  } else {
    CoverByPieces(n, [=](auto count, int64_t first) {
      ForEach(count, [=](int64_t k) { put_window(first + k); });
    });
  }
}

template <class T>
void MaxOfFourBackward(const MaxOfTapsBackward& p, bool accumulate, void* dx) {
  const int64_t out = p.width.out, in = p.width.in;
  T* const first = static_cast<T*>(dx);
  for (int64_t i = 0; i < p.height.out; ++i) {
    const T* const dy = static_cast<const T*>(p.dy) + i * out;
    T *const upper = first + 2 * i * in, *const lower = upper + in;
    if (accumulate) {
      MaxOfFourBackwardRows<T, true>(dy, p.taps + i * out, out, upper, lower);
      continue;
    }
    MaxOfFourBackwardRows<T, false>(dy, p.taps + i * out, out, upper, lower);
    if (in > 2 * out) upper[in - 1] = lower[in - 1] = T{};
  }
  if (accumulate || p.height.in == 2 * p.height.out) return;
  for (int64_t j = 0; j < in; ++j) first[(p.height.in - 1) * in + j] = T{};
}

template <class T>
void MaxOfAnyWindows(const MaxOfWindows& p) {
  const T* const x = static_cast<const T*>(p.x);
  T* const y = static_cast<T*>(p.y);
  for (int64_t i = 0; i < p.height.out; ++i) {
    for (int64_t j = 0; j < p.width.out; ++j) {
      int64_t index = p.height.begin[i] * p.width.in + p.width.begin[j];
      Compute<T> largest = Load(x[index]);
      for (int64_t row = p.height.begin[i]; row < p.height.end[i]; ++row) {
        for (int64_t column = p.width.begin[j]; column < p.width.end[j]; ++column) {
          const Compute<T> value = Load(x[row * p.width.in + column]);
          if (value > largest || value != value) {
            largest = value;
            index = row * p.width.in + column;
          }
        }
      }
      y[i * p.width.out + j] = Round<T>(largest);
      p.indices[i * p.width.out + j] = index;
    }
  }
}

template <class T>
void Scatter(const void* dy, const int64_t* indices, int64_t n, void* gradient) {
  const T* const from = static_cast<const T*>(dy);
  auto* const to = static_cast<Compute<T>*>(gradient);
  for (int64_t i = 0; i < n; ++i) to[indices[i]] += Load(from[i]);
}

// Rows first, a vector of columns at a time.
template <class T>
void AveragePool(const Average& p) {
  using C = Compute<T>;
  C* const sums = static_cast<C*>(p.row);
  T* y = static_cast<T*>(p.y);
  for (int64_t i = 0; i < p.height.out; ++i) {
    for (int64_t row = p.height.begin[i]; row < p.height.end[i]; ++row) {
      const T* const x = static_cast<const T*>(p.x) + row * p.width.in;
      if (row == p.height.begin[i]) {
        ForEach(p.width.in, [=](int64_t j) { sums[j] = Load(x[j]); });
      } else {
        ForEach(p.width.in, [=](int64_t j) { sums[j] += Load(x[j]); });
      }
    }
    for (int64_t j = 0; j < p.width.out; ++j) {
      C sum = 0;
      for (int64_t c = p.width.begin[j]; c < p.width.end[j]; ++c) sum += sums[c];
      *y++ = Round<T>(sum / static_cast<C>(p.height.divisor[i] * p.width.divisor[j]));
    }
  }
}

template <class T>
void AveragePoolBackward(const AverageBackward& p) {
  using C = Compute<T>;
  C* const sums = static_cast<C*>(p.row);
  const T* dy = static_cast<const T*>(p.dy);
  for (int64_t i = 0; i < p.height.out; ++i) {
    for (int64_t j = 0; j < p.width.in; ++j) sums[j] = 0;
    for (int64_t j = 0; j < p.width.out; ++j) {
      const C part = Load(*dy++) / static_cast<C>(p.height.divisor[i] * p.width.divisor[j]);
      for (int64_t c = p.width.begin[j]; c < p.width.end[j]; ++c) sums[c] += part;
    }
    for (int64_t row = p.height.begin[i]; row < p.height.end[i]; ++row) {
      C* const gradient = static_cast<C*>(p.gradient) + row * p.width.in;
      ForEach(p.width.in, [=](int64_t j) { gradient[j] += sums[j]; });
    }
  }
}

template <class T>
void Store(const void* gradient, bool accumulate, void* dx, int64_t n) {
  const auto* const from = static_cast<const Compute<T>*>(gradient);
  T* const to = static_cast<T*>(dx);
  if (accumulate) {
    ForEach(n, [=](int64_t i) { to[i] = Round<T>(Load(to[i]) + from[i]); });
  } else {
    ForEach(n, [=](int64_t i) { to[i] = Round<T>(from[i]); });
  }
}

template <class T>
constexpr PoolingKernels KernelsOf() {
  return {MaxPool<T>,           MaxOfFour<T>,           MaxPoolBackward<T>,
          MaxOfFourBackward<T>, MaxOfAnyWindows<T>,     Scatter<T>,
          AveragePool<T>,       AveragePoolBackward<T>, Store<T>};
}

}  // namespace

constinit const PoolingKernels kPoolingKernels[kNumPoolingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
