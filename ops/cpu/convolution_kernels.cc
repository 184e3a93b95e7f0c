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

template <class T>
void Pad(const Padded& p) {
  using C = Compute<T>;
  for (int64_t row = 0; row < p.rows; ++row) {
    C* const out = static_cast<C*>(p.out) + row * p.columns;
    const bool inside = row >= p.first_row && row < p.end_row && p.first_column < p.end_column;
    const int64_t begin = inside ? p.first_column : p.columns;
    const int64_t end = inside ? p.end_column : p.columns;
    for (int64_t j = 0; j < begin; ++j) out[j] = 0;
    for (int64_t j = end; j < p.columns; ++j) out[j] = 0;
    if (!inside) continue;
    const T* const from = static_cast<const T*>(p.from) + (row - p.first_row) * p.row_stride;
    C* const to = out + begin;
    if (p.column_stride == 1) {
      ForEach(end - begin, [=](int64_t j) { to[j] = Load(from[j]); });
    } else {
      const int64_t stride = p.column_stride;
      ForEach(end - begin, [=](int64_t j) { to[j] = Load(from[j * stride]); });
    }
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
  for (; tile.positions - position > (kVectors - 1) * kWidth; position += kVectors * kWidth) {
    Correlate<C, kVectors, kOutputs>(tile, position, begin, end);
  }
  if constexpr (kVectors > 2) {
    for (; tile.positions - position > kWidth; position += 2 * kWidth) {
      Correlate<C, 2, kOutputs>(tile, position, begin, end);
    }
  }
  for (; position < tile.positions; position += kWidth) {
    Correlate<C, 1, kOutputs>(tile, position, begin, end);
  }
}

template <class C, int kOutputs>
void CorrelateOutputs(const CorrelationTile& tile) {
  const int64_t bytes = tile.taps * kOutputs * static_cast<int64_t>(sizeof(C));
  const int64_t step = bytes > 0 && bytes < kWeightBytes ? kWeightBytes / bytes : 1;
  int64_t begin = 0;
  do {  // once even without channels: sums of nothing are zero
    const int64_t end = begin + step < tile.channels ? begin + step : tile.channels;
    CorrelateChannels<C, kOutputs>(tile, begin, end);
    begin = end;
  } while (begin < tile.channels);
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
[[gnu::always_inline]] inline void PlaceRow(const Compute<T>* sums, Compute<T> bias, T* out,
                                            int64_t stride, int64_t n) {
  ForEach(n, [=](int64_t j) {
    const Compute<T> value = sums[j] + bias;
    out[j * stride] = Round<T>(kAccumulate ? Load(out[j * stride]) + value : value);
  });
}

template <class T>
void Place(const Placed& p) {
  using C = Compute<T>;
  const C bias = p.bias != nullptr ? Load(*static_cast<const T*>(p.bias)) : 0;
  for (int64_t row = 0; row < p.rows; ++row) {
    const C* const sums = static_cast<const C*>(p.sums) + row * p.pitch;
    T* const out = static_cast<T*>(p.out) + row * p.row_stride;
    if (p.accumulate) {
      PlaceRow<T, true>(sums, bias, out, p.column_stride, p.columns);
    } else if (p.column_stride == 1) {
      PlaceRow<T, false>(sums, bias, out, 1, p.columns);
    } else {
      PlaceRow<T, false>(sums, bias, out, p.column_stride, p.columns);
    }
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
