#include "ops/cpu/convolution_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// A tile's sums stay in registers: kMaxVectors x kMaxOutputs of them, and the vectors they are
// made from beside them. Few outputs make up for it with longer rows of vectors.
constexpr int kMaxOutputs = kVectorBytes == 64 ? 8 : 4;
constexpr int MaxVectors(int outputs) { return outputs == 1 ? 8 : outputs == 2 ? 4 : 3; }

// The part of the weights that stays in the L1 cache while it meets all positions.
constexpr int64_t kWeightBytes = 16384;

// A part of a register: kWidth elements.
template <class C, int kWidth>
struct PartOf {
  typedef C Type __attribute__((vector_size(kWidth * sizeof(C)), aligned(alignof(C)), may_alias));
};

// f(part, i) for parts that cover [0, n), the last two of which may overlap: f must write what
// doesn't depend on what it has written.
template <class C, int kWidth = VectorOf<C>::kWidth, class F>
[[gnu::always_inline]] inline void Cover(int64_t n, F f) {
  using Part = typename PartOf<C, kWidth>::Type;
  if (n >= kWidth) {
    int64_t i = 0;
    for (; i + kWidth <= n; i += kWidth) f(Part{}, i);
    if (i < n) f(Part{}, n - kWidth);
  } else if constexpr (kWidth > 1) {
    Cover<C, kWidth / 2>(n, f);
  }
}

template <class T, int kStride>
[[gnu::always_inline]] inline void PadRow(const T* from, int64_t stride, Compute<T>* to,
                                          int64_t n) {
  if constexpr (kStride == 1 && std::is_same_v<T, Compute<T>>) {
    Cover<T>(n, [=]<class Part>(Part, int64_t i) {
      *reinterpret_cast<Part*>(to + i) = *reinterpret_cast<const Part*>(from + i);
    });
  } else {
    ForEach(n, [=](int64_t i) { to[i] = Load(from[i * (kStride > 0 ? kStride : stride)]); });
  }
}

template <class C>
[[gnu::always_inline]] inline void Zero(C* out, int64_t n) {
  Cover<C>(n, [=]<class Part>(Part zero, int64_t i) { *reinterpret_cast<Part*>(out + i) = zero; });
}

template <class T, int kStride>
void PadRows(const Padded& p) {
  auto* const out = static_cast<Compute<T>*>(p.out);
  const T* const from = static_cast<const T*>(p.from);
  const int64_t rows = p.end_row - p.first_row, columns = p.end_column - p.first_column;
  // Zeros everywhere first: cheaper than the ends of each row by themselves.
  if (rows < p.rows || columns < p.columns) Zero(out, p.rows * p.columns);
  for (int64_t row = 0; row < rows; ++row) {
    PadRow<T, kStride>(from + row * p.row_stride, p.column_stride,
                       out + (p.first_row + row) * p.columns + p.first_column, columns);
  }
}

template <class T>
void Pad(const Padded& p) {
  switch (p.column_stride) {
    case 1:
      return PadRows<T, 1>(p);
    case 2:
      return PadRows<T, 2>(p);
    default:
      return PadRows<T, 0>(p);
  }
}

template <class T>
void Pack(const PackedWeights& p) {
  const T* const weight = static_cast<const T*>(p.weight);
  auto* out = static_cast<Compute<T>*>(p.out);
  for (int64_t channel = 0; channel < p.channels; ++channel) {
    for (int64_t tap = 0; tap < p.taps; ++tap) {
      const T* const first = weight + channel * p.channel_stride + p.kernel_indices[tap];
      for (int64_t output = 0; output < p.outputs; ++output) {
        *out++ = Load(first[output * p.output_stride]);
      }
    }
  }
}

// kVectors vectors of positions for kOutputs outputs, over some of the channels; later ones add to
// what earlier ones left.
template <class C, int kVectors, int kOutputs>
void Correlate(const CorrelationTile& tile, int64_t position, int64_t begin, int64_t end) {
  constexpr int kWidth = VectorOf<C>::kWidth;
  C* const out = static_cast<C*>(tile.sums) + position;
  Vector<C> sums[kVectors][kOutputs] = {};
  if (begin > 0) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) {
        __builtin_memcpy(&sums[v][o], out + o * tile.sums_stride + v * kWidth, sizeof(sums[v][o]));
      }
    }
  }
  const C* weights = static_cast<const C*>(tile.weights) + begin * tile.taps * kOutputs;
  for (int64_t channel = begin; channel < end; ++channel) {
    const C* const source =
        static_cast<const C*>(tile.source) + channel * tile.channel_stride + position;
    for (int64_t tap = 0; tap < tile.taps; ++tap, weights += kOutputs) {
      const C* const x = source + tile.offsets[tap];
      Vector<C> values[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        __builtin_memcpy(&values[v], x + v * kWidth, sizeof(values[v]));
      }
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums[v][o] += weights[o] * values[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) {
      __builtin_memcpy(out + o * tile.sums_stride + v * kWidth, &sums[v][o], sizeof(sums[v][o]));
    }
  }
}

// All positions, for some channels.
template <class C, int kOutputs>
void CorrelateChannels(const CorrelationTile& tile, int64_t begin, int64_t end) {
  constexpr int kVectors = MaxVectors(kOutputs);
  constexpr int64_t kWidth = VectorOf<C>::kWidth;
  static_assert(kWidth <= kOverrun);
  int64_t position = 0;
  int64_t vectors = (tile.positions + kWidth - 1) / kWidth;
  // Of few outputs, one vector alone has too few sums to keep the multipliers busy: four at the end
  // go by two and two.
  for (; vectors >= kVectors && (kVectors != 3 || vectors != 4); vectors -= kVectors) {
    Correlate<C, kVectors, kOutputs>(tile, position, begin, end);
    position += kVectors * kWidth;
  }
  for (; vectors >= 2; vectors -= 2, position += 2 * kWidth) {
    Correlate<C, 2, kOutputs>(tile, position, begin, end);
  }
  if (vectors == 1) Correlate<C, 1, kOutputs>(tile, position, begin, end);
}

template <class C, int kOutputs>
void CorrelateOutputs(const CorrelationTile& tile) {
  const int64_t bytes = tile.taps * kOutputs * static_cast<int64_t>(sizeof(C));
  const int64_t step = bytes > 0 && bytes < kWeightBytes ? kWeightBytes / bytes : 1;
  const int64_t channels = tile.taps > 0 ? tile.channels : 0;
  int64_t begin = 0;
  do {  // once even for nothing: its sums are zero
    const int64_t end = begin + step < channels ? begin + step : channels;
    CorrelateChannels<C, kOutputs>(tile, begin, end);
    begin = end;
  } while (begin < channels);
}

template <class C>
void CorrelateAll(const CorrelationTile& tile) {
  static constexpr void (*kByOutputs[8])(const CorrelationTile&) = {
      CorrelateOutputs<C, 1>,
      CorrelateOutputs<C, 2>,
      CorrelateOutputs<C, 3>,
      CorrelateOutputs<C, 4>,
      CorrelateOutputs < C,
      kMaxOutputs == 8 ? 5 : 4 >,
      CorrelateOutputs < C,
      kMaxOutputs == 8 ? 6 : 4 >
      , CorrelateOutputs < C, kMaxOutputs == 8 ? 7 : 4 >, CorrelateOutputs<C, kMaxOutputs>,
  };
  kByOutputs[tile.outputs - 1](tile);
}

template <class T, bool kAccumulate>
[[gnu::always_inline]] inline void PlaceOne(Compute<T> value, T* out) {
  *out = Round<T>(kAccumulate ? Load(*out) + value : value);
}

// A row whose columns all have one phase.
template <class T, bool kAccumulate>
[[gnu::always_inline]] inline void PlaceWhole(const Compute<T>* sums, Compute<T> bias, T* out,
                                              int64_t n) {
  if constexpr (!kAccumulate && std::is_same_v<T, Compute<T>>) {
    Cover<T>(n, [=]<class Part>(Part, int64_t i) {
      *reinterpret_cast<Part*>(out + i) = *reinterpret_cast<const Part*>(sums + i) + bias;
    });
  } else {
    ForEach(n, [=](int64_t i) { PlaceOne<T, kAccumulate>(sums[i] + bias, out + i); });
  }
}

// A row whose columns have phases by turns.
template <class T, bool kAccumulate>
void PlaceByTurns(const Placed& p, const Compute<T>* sums, Compute<T> bias, T* out) {
  if (p.phases == 2) {
    const auto* const odd = sums + p.phase_stride;
    ForEach(p.columns / 2, [=](int64_t i) {
      PlaceOne<T, kAccumulate>(sums[i] + bias, out + 2 * i);
      PlaceOne<T, kAccumulate>(odd[i] + bias, out + 2 * i + 1);
    });
    const int64_t last = p.columns - 1;
    if (last % 2 == 0) PlaceOne<T, kAccumulate>(sums[last / 2] + bias, out + last);
    return;
  }
  for (int64_t phase = 0; phase < p.phases; ++phase, sums += p.phase_stride) {
    for (int64_t column = phase, i = 0; column < p.columns; column += p.phases, ++i) {
      PlaceOne<T, kAccumulate>(sums[i] + bias, out + column);
    }
  }
}

template <class T, bool kAccumulate>
void PlaceRows(const Placed& p) {
  const Compute<T> bias = p.bias != nullptr ? Load(*static_cast<const T*>(p.bias)) : 0;
  for (int64_t row = 0; row < p.rows; ++row) {
    const auto* const sums = static_cast<const Compute<T>*>(p.sums) + row * p.pitch;
    T* const out = static_cast<T*>(p.out) + row * p.row_stride;
    if (p.phases == 1) {
      PlaceWhole<T, kAccumulate>(sums, bias, out, p.columns);
    } else {
      PlaceByTurns<T, kAccumulate>(p, sums, bias, out);
    }
  }
}

template <class T>
void Place(const Placed& p) {
  if (p.accumulate) {
    PlaceRows<T, true>(p);
  } else {
    PlaceRows<T, false>(p);
  }
}

template <class T>
constexpr ConvolutionKernels KernelsOf() {
  return {kMaxOutputs, Pad<T>, Pack<T>, CorrelateAll<Compute<T>>, Place<T>};
}

}  // namespace

constinit const ConvolutionKernels kConvolutionKernels[kNumFloatingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
