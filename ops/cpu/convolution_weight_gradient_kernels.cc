#include "ops/cpu/convolution_weight_gradient_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// Taps of a tile: so many pointers into the source and twice as many vectors of sums stay in
// registers.
constexpr int kMaxTaps = kVectorBytes == 64 ? 9 : 6;

// As wide as an element.
template <class C>
using Integer = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;

// The first halves of a and b, element by element in turn, and the second halves.
template <class C>
[[gnu::always_inline]] inline void Interleave(Vector<C> a, Vector<C> b, Vector<C>& first,
                                              Vector<C>& second) {
  constexpr int kWidth = VectorOf<C>::kWidth;
  Vector<Integer<C>> low, high;
  for (int i = 0; i < kWidth; ++i) {
    low[i] = i / 2 + i % 2 * kWidth;
    high[i] = low[i] + kWidth / 2;
  }
  first = __builtin_shuffle(a, b, low);
  second = __builtin_shuffle(a, b, high);
}

// Transposes a square of vectors: each round halves the distance of what belongs together.
template <class C>
[[gnu::always_inline]] inline void Transpose(Vector<C> (&rows)[VectorOf<C>::kWidth]) {
  constexpr int kWidth = VectorOf<C>::kWidth;
  Vector<C> turned[kWidth];
#pragma GCC unroll 4
  for (int round = 1; round < kWidth; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kWidth / 2; ++i) {
      Interleave<C>(rows[i], rows[i + kWidth / 2], turned[2 * i], turned[2 * i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) rows[i] = turned[i];
  }
}

// One vector of outputs for up to a vector of pixels.
template <class T>
void TurnSquare(const T* gradient, int64_t output_stride, int64_t outputs, int64_t pixels,
                Compute<T>* out, int64_t lanes) {
  using C = Compute<T>;
  constexpr int kWidth = VectorOf<C>::kWidth;
  Vector<C> rows[kWidth];
  for (int64_t i = 0; i < kWidth; ++i) {
    const T* const from = gradient + i * output_stride;
    if constexpr (std::is_same_v<T, C>) {
      if (i < outputs && pixels >= kWidth) {
        __builtin_memcpy(&rows[i], from, sizeof(rows[i]));
        continue;
      }
    }
    C row[kWidth] = {};
    if (i < outputs && pixels >= kWidth) {
      ForEach(kWidth, [&](int64_t j) { row[j] = Load(from[j]); });
    } else if (i < outputs) {
      for (int64_t j = 0; j < pixels; ++j) row[j] = Load(from[j]);
    }
    __builtin_memcpy(&rows[i], row, sizeof(row));
  }
  Transpose<C>(rows);
  if (pixels >= kWidth) {
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) __builtin_memcpy(out + j * lanes, &rows[j], sizeof(rows[j]));
  } else {
    for (int j = 0; j < pixels; ++j) __builtin_memcpy(out + j * lanes, &rows[j], sizeof(rows[j]));
  }
}

template <class T>
void Turn(const TurnedGradient& t) {
  constexpr int64_t kWidth = VectorOf<Compute<T>>::kWidth;
  for (int64_t lane = 0; lane < t.lanes; lane += kWidth) {
    for (int64_t pixel = 0; pixel < t.pixels; pixel += kWidth) {
      TurnSquare(static_cast<const T*>(t.gradient) + lane * t.output_stride + pixel,
                 t.output_stride, t.outputs - lane, t.pixels - pixel,
                 static_cast<Compute<T>*>(t.out) + pixel * t.lanes + lane, t.lanes);
    }
  }
}

template <class C>
[[gnu::always_inline]] inline Vector<C> VectorAt(const C* values) {
  Vector<C> vector;
  __builtin_memcpy(&vector, values, sizeof(vector));
  return vector;
}

// kTaps taps, which read the source at these offsets, for kVectors vectors of outputs.
template <class C, int kVectors, int kTaps>
void AddTile(const WeightProducts& p, const int64_t* offsets, C* out) {
  constexpr int kWidth = VectorOf<C>::kWidth;
  Vector<C> sums[kTaps][kVectors];
#pragma GCC unroll 16
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[t][v] = VectorAt(out + (t * kVectors + v) * kWidth);
  }
  const C* gradient = static_cast<const C*>(p.gradient);
  for (int64_t row = 0; row < p.rows; ++row) {
    const C* source[kTaps];
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) {
      source[t] = static_cast<const C*>(p.source) + row * p.pitch + offsets[t];
    }
    for (int64_t column = 0; column < p.columns; ++column, gradient += kVectors * kWidth) {
      Vector<C> arriving[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) arriving[v] = VectorAt(gradient + v * kWidth);
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[t][v] += source[t][column] * arriving[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      __builtin_memcpy(out + (t * kVectors + v) * kWidth, &sums[t][v], sizeof(sums[t][v]));
    }
  }
}

// As AddTile for one output, whose lanes are columns modulo a vector: all lanes make up its sum.
template <class C, int kTaps>
void AddTileOfOne(const WeightProducts& p, const int64_t* offsets, C* out) {
  constexpr int64_t kWidth = VectorOf<C>::kWidth;
  const int64_t whole = p.columns / kWidth * kWidth,
                pitch = (p.columns + kWidth - 1) / kWidth * kWidth;
  // Beyond the last column dy is zero, but x may be infinite.
  Vector<Integer<C>> is_inside;
  for (int64_t i = 0; i < kWidth; ++i) is_inside[i] = whole + i < p.columns ? -1 : 0;
  Vector<C> sums[kTaps];
#pragma GCC unroll 16
  for (int t = 0; t < kTaps; ++t) sums[t] = VectorAt(out + t * kWidth);
  for (int64_t row = 0; row < p.rows; ++row) {
    const C* const gradient = static_cast<const C*>(p.gradient) + row * pitch;
    const C* const source = static_cast<const C*>(p.source) + row * p.pitch;
    for (int64_t column = 0; column < whole; column += kWidth) {
      const Vector<C> arriving = VectorAt(gradient + column);
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) sums[t] += VectorAt(source + offsets[t] + column) * arriving;
    }
    if (whole == p.columns) continue;
    const Vector<C> arriving = VectorAt(gradient + whole);
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) {
      const Vector<C> values = VectorAt(source + offsets[t] + whole);
      sums[t] += (is_inside ? values : Vector<C>{}) * arriving;
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < kTaps; ++t) __builtin_memcpy(out + t * kWidth, &sums[t], sizeof(sums[t]));
}

template <class C>
using Tile = void (*)(const WeightProducts&, const int64_t* offsets, C* out);

template <class C>
struct TilesOfOne {
  static constexpr Tile<C> kByTaps[9] = {
      AddTileOfOne<C, 1>,
      AddTileOfOne<C, 2>,
      AddTileOfOne<C, 3>,
      AddTileOfOne<C, 4>,
      AddTileOfOne<C, 5>,
      AddTileOfOne<C, 6>,
      AddTileOfOne<C, kMaxTaps == 9 ? 7 : 6>,
      AddTileOfOne<C, kMaxTaps == 9 ? 8 : 6>,
      AddTileOfOne<C, kMaxTaps>,
  };
};

template <class C, int kVectors>
struct Tiles {
  static constexpr Tile<C> kByTaps[9] = {
      AddTile<C, kVectors, 1>,
      AddTile<C, kVectors, 2>,
      AddTile<C, kVectors, 3>,
      AddTile<C, kVectors, 4>,
      AddTile<C, kVectors, 5>,
      AddTile<C, kVectors, 6>,
      AddTile<C, kVectors, kMaxTaps == 9 ? 7 : 6>,
      AddTile<C, kVectors, kMaxTaps == 9 ? 8 : 6>,
      AddTile<C, kVectors, kMaxTaps>,
  };
};

template <class C>
void Add(const WeightProducts& p) {
  const int64_t total = p.channels * p.taps;
  const int64_t tiles = (total + kMaxTaps - 1) / kMaxTaps;
  const auto& by_taps = p.outputs == 1                   ? TilesOfOne<C>::kByTaps
                        : p.lanes == VectorOf<C>::kWidth ? Tiles<C, 1>::kByTaps
                                                         : Tiles<C, 2>::kByTaps;
  int64_t channel = 0, tap = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t first = total * tile / tiles, count = total * (tile + 1) / tiles - first;
    int64_t offsets[kMaxTaps];
    for (int64_t i = 0; i < count; ++i) {
      offsets[i] = channel * p.channel_stride + p.offsets[tap];
      if (++tap == p.taps) tap = 0, ++channel;
    }
    by_taps[count - 1](p, offsets, static_cast<C*>(p.sums) + first * p.lanes);
  }
}

template <class C>
void AddParts(void* sums, int64_t parts, int64_t part_stride, int64_t n) {
  constexpr int64_t kBlock = 256;
  double total[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    C* const first = static_cast<C*>(sums) + begin;
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    ForEach(count, [&](int64_t i) { total[i] = first[i]; });
    for (int64_t part = 1; part < parts; ++part) {
      const C* const more = first + part * part_stride;
      ForEach(count, [&](int64_t i) { total[i] += more[i]; });
    }
    ForEach(count, [&](int64_t i) { first[i] = static_cast<C>(total[i]); });
  }
}

template <class T>
void Finish(const WeightSums& p) {
  const auto* const sums = static_cast<const Compute<T>*>(p.sums);
  T* const out = static_cast<T*>(p.out);
  for (int64_t i = 0; i < p.count; ++i) {
    Compute<T> sum = 0;
    for (int64_t lane = 0; lane < p.lanes_of_sum; ++lane) sum += sums[i * p.lanes + lane];
    out[i] = Round<T>(p.accumulate ? Load(out[i]) + sum : sum);
  }
}

template <class T>
constexpr ConvolutionWeightGradientKernels KernelsOf() {
  return {VectorOf<Compute<T>>::kWidth, Turn<T>, Add<Compute<T>>, AddParts<Compute<T>>, Finish<T>};
}

}  // namespace

constinit const ConvolutionWeightGradientKernels
    kConvolutionWeightGradientKernels[kNumFloatingDTypes] = {
        KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
