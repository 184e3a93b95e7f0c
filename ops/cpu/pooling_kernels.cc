#include "ops/cpu/pooling_kernels.h"

#include <type_traits>
#include <utility>

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
template <int kCount, class F>
[[gnu::always_inline]] inline void CoverByPieces(int64_t n, F f) {
  if (n >= kCount) {
    for (int64_t i = 0; i + kCount <= n; i += kCount) f(std::integral_constant<int, kCount>(), i);
    if (n % kCount != 0) f(std::integral_constant<int, kCount>(), n - kCount);
  } else if constexpr (kCount > 1) {
    CoverByPieces<kCount / 2>(n, f);
  }
}

// Windows of 2 x 2 that are worked on at once: a vector, but no wider than planes mostly are.
template <class T>
constexpr int kPiece = VectorOf<Compute<T>>::kWidth < 8 ? VectorOf<Compute<T>>::kWidth : 8;

template <class V, int kCount>
struct PieceOf {
  typedef V Type __attribute__((vector_size(kCount * sizeof(V))));
};

// kCount values, as they are calculated with.
template <class V, int kCount>
using Piece = typename PieceOf<V, kCount>::Type;

template <int kCount, class T>
[[gnu::always_inline]] inline Piece<Compute<T>, kCount> LoadPiece(const T* x) {
  Piece<Compute<T>, kCount> piece;
  if constexpr (std::is_same_v<T, Compute<T>>) {
    __builtin_memcpy(&piece, x, sizeof(piece));
  } else {
    for (int i = 0; i < kCount; ++i) piece[i] = Load(x[i]);
  }
  return piece;
}

template <int kCount, class T>
[[gnu::always_inline]] inline void StorePiece(Piece<Compute<T>, kCount> piece, T* x) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    __builtin_memcpy(x, &piece, sizeof(piece));
  } else {
    for (int i = 0; i < kCount; ++i) x[i] = Round<T>(piece[i]);
  }
}

template <class Half, int... kIndex>
[[gnu::always_inline]] inline void Split(Half first, Half second, Half& even, Half& odd,
                                         std::integer_sequence<int, kIndex...>) {
  even = __builtin_shufflevector(first, second, (2 * kIndex)...);
  odd = __builtin_shufflevector(first, second, (2 * kIndex + 1)...);
}

template <class Half, int... kIndex>
[[gnu::always_inline]] inline void Merge(Half even, Half odd, Half& first, Half& second,
                                         std::integer_sequence<int, kIndex...>) {
  constexpr int kCount = sizeof...(kIndex);
  constexpr auto source = [](int i) { return i / 2 + i % 2 * kCount; };
  first = __builtin_shufflevector(even, odd, source(kIndex)...);
  second = __builtin_shufflevector(even, odd, source(kCount + kIndex)...);
}

// kCount windows side by side.
template <int kCount, class T>
[[gnu::always_inline]] inline void MaxOfFourPiece(const T* upper, const T* lower, T* y,
                                                  uint8_t* taps) {
  using Values = Piece<Compute<T>, kCount>;
  using Taps = Piece<Tap<Compute<T>>, kCount>;
  constexpr std::make_integer_sequence<int, kCount> kIndices;
  Values largest, upper_right, lower_left, lower_right;
  Split(LoadPiece<kCount>(upper), LoadPiece<kCount>(upper + kCount), largest, upper_right,
        kIndices);
  Split(LoadPiece<kCount>(lower), LoadPiece<kCount>(lower + kCount), lower_left, lower_right,
        kIndices);
  Taps winner = {};
  const auto compete = [&](Values value, Tap<Compute<T>> tap) {
    const Taps wins = (value > largest) | (value != value);
    winner = wins ? tap - Taps{} : winner;
    largest = wins ? value : largest;
  };
  compete(upper_right, 1);
  compete(lower_left, 2);
  compete(lower_right, 3);
  StorePiece<kCount>(largest, y);
  const auto bytes = __builtin_convertvector(winner, Piece<uint8_t, kCount>);
  __builtin_memcpy(taps, &bytes, sizeof(bytes));
}

template <class T>
void MaxOfFour(const MaxOfTaps& p) {
  constexpr int kMost = kPiece<T>;
  const int64_t columns = p.width.out;
  for (int64_t i = 0; i < p.height.out; ++i) {
    const T* const upper = static_cast<const T*>(p.x) + 2 * i * p.width.in;
    const T* const lower = upper + p.width.in;
    T* const y = static_cast<T*>(p.y) + i * columns;
    uint8_t* const taps = p.taps + i * columns;
    // A short row takes a whole piece too: the rows that follow overwrite what it has too much.
    if (columns < kMost && (p.height.out - i) * columns >= kMost) {
      MaxOfFourPiece<kMost>(upper, lower, y, taps);
      continue;
    }
    CoverByPieces<kMost>(columns, [=](auto count, int64_t j) {
      MaxOfFourPiece<count()>(upper + 2 * j, lower + 2 * j, y + j, taps + j);
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

// Two neighbours of each of kCount windows.
template <bool kAccumulate, int kCount, class T>
[[gnu::always_inline]] inline void PutPairs(Piece<Compute<T>, kCount> even,
                                            Piece<Compute<T>, kCount> odd, T* x) {
  Piece<Compute<T>, kCount> first, second;
  Merge(even, odd, first, second, std::make_integer_sequence<int, kCount>());
  if constexpr (kAccumulate) {
    first += LoadPiece<kCount>(x);
    second += LoadPiece<kCount>(x + kCount);
  }
  StorePiece<kCount>(first, x);
  StorePiece<kCount>(second, x + kCount);
}

// kCount windows side by side.
template <bool kAccumulate, int kCount, class T>
[[gnu::always_inline]] inline void MaxOfFourBackwardPiece(const T* dy, const uint8_t* taps,
                                                          T* upper, T* lower) {
  using Values = Piece<Compute<T>, kCount>;
  using Taps = Piece<Tap<Compute<T>>, kCount>;
  const Values arriving = LoadPiece<kCount>(dy);
  Piece<uint8_t, kCount> bytes;
  __builtin_memcpy(&bytes, taps, sizeof(bytes));
  const Taps winner = __builtin_convertvector(bytes, Taps);
  const auto part_of = [=](Tap<Compute<T>> tap) { return winner == tap ? arriving : Values{}; };
  PutPairs<kAccumulate, kCount>(part_of(0), part_of(1), upper);
  PutPairs<kAccumulate, kCount>(part_of(2), part_of(3), lower);
}

// Rows `upper` and `lower` of the plane, under n windows.
template <class T, bool kAccumulate>
void MaxOfFourBackwardRows(const T* dy, const uint8_t* taps, int64_t n, T* upper, T* lower) {
  const auto put = [=](auto count, int64_t j) {
    MaxOfFourBackwardPiece<kAccumulate, count()>(dy + j, taps + j, upper + 2 * j, lower + 2 * j);
  };
  constexpr int kMost = kPiece<T>;
  // Where pieces add, none may overlap.
  const int64_t whole = kAccumulate ? n - n % kMost : n;
  CoverByPieces<kMost>(whole, put);
  for (int64_t j = whole; j < n; ++j) put(std::integral_constant<int, 1>(), j);
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
