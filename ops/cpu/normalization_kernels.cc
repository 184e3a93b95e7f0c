#include "ops/cpu/normalization_kernels.h"

#include "ops/cpu/kernel_element.h"
#include "ops/cpu/kernel_lanes.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// Calls f(offset) for every element, vectorised along the runs.
template <class F>
[[gnu::always_inline]] inline void ForEachIn(const Runs& runs, F f) {
  if (runs.length == 1) {
    ForEach(runs.count, [&, stride = runs.stride](int64_t i) { f(i * stride); });
    return;
  }
  for (int64_t run = 0; run < runs.count; ++run) {
    ForEach(runs.length, [&, begin = run * runs.stride](int64_t i) { f(begin + i); });
  }
}

struct Pair {
  double first;
  double second;
};

// Sums of pairs, in lanes.
class PairSums {
 public:
  // Adds f(0) ... f(n - 1), each f(i) in lane i mod kLanes.
  template <class F>
  [[gnu::always_inline]] inline void Add(int64_t n, F f) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      ForEach(count, [&, begin](int64_t i) {
        const Pair pair = f(begin + i);
        first_values_[i] = pair.first;
        second_values_[i] = pair.second;
      });
      first_.Add(first_values_, PadToLanes(first_values_, count));
      second_.Add(second_values_, PadToLanes(second_values_, count));
    }
  }

  Pair Finish() const { return {first_.Finish(), second_.Finish()}; }

 private:
  static constexpr int64_t kBlock = 256;
  alignas(kVectorBytes) double first_values_[kBlock];
  alignas(kVectorBytes) double second_values_[kBlock];
  LaneSums first_;
  LaneSums second_;
};

// The sum of f(offset) over all elements.
template <class F>
[[gnu::always_inline]] inline Pair SumOfPairs(const Runs& runs, F f) {
  PairSums sums;
  if (runs.length == 1) {
    sums.Add(runs.count, [&, stride = runs.stride](int64_t i) { return f(i * stride); });
    return sums.Finish();
  }
  for (int64_t run = 0; run < runs.count; ++run) {
    sums.Add(runs.length, [&, begin = run * runs.stride](int64_t i) { return f(begin + i); });
  }
  return sums.Finish();
}

// Of x - shift, in one pass. The variance is the difference of E[(x - shift)^2] and
// E[x - shift]^2; with one of the n elements as the shift the first is at most n + 1 times the
// variance, so that float64 loses little.
template <class T>
Moments ShiftedMoments(const T* x, const Runs& runs, double shift) {
  const Pair sums = SumOfPairs(runs, [=](int64_t i) -> Pair {
    const double difference = static_cast<double>(Load(x[i])) - shift;
    return {difference, difference * difference};
  });
  const auto n = static_cast<double>(runs.count * runs.length);
  return {sums.first / n, sums.second / n};
}

template <class T>
Moments MomentsOf(const T* x, const Runs& runs) {
  const auto shift = static_cast<double>(Load(x[0]));
  const Moments shifted = ShiftedMoments(x, runs, shift);
  const double variance = shifted.variance - shifted.mean * shifted.mean;
  return {shift + shifted.mean, variance < 0 ? 0 : variance};
}

template <class T>
Moments ChannelMoments(const void* x, const Runs& runs) {
  return MomentsOf(static_cast<const T*>(x), runs);
}

// f with a compile-time bool.
template <class F>
[[gnu::always_inline]] inline auto WithFlag(bool flag, F f) {
  return flag ? f(std::true_type()) : f(std::false_type());
}

// ChannelAffine in the type that the elements are calculated in.
template <class C>
struct Affine {
  explicit Affine(const ChannelAffine& affine)
      : mean(static_cast<C>(affine.mean)),
        scale(static_cast<C>(affine.scale)),
        bias(static_cast<C>(affine.bias)) {}

  C Of(C x) const { return (x - mean) * scale + bias; }
  // dy, or 0 where ReLU cut y off: calculated again, to the same bits.
  template <bool kRelu>
  C Arriving(C x, C dy) const {
    return kRelu && Of(x) <= 0 ? 0 : dy;
  }

  C mean, scale, bias;
};

template <class T>
void Normalize(const void* x, const Runs& runs, const ChannelAffine& channel, void* y) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  const Affine<Compute<T>> affine(channel);
  WithFlag(channel.relu, [=](auto relu) {
    ForEachIn(runs, [=](int64_t i) {
      const Compute<T> value = affine.Of(Load(from[i]));
      to[i] = Round<T>(relu && value < 0 ? 0 : value);
    });
  });
}

template <class T>
ChannelSums SumsOfChannel(const void* x, const void* dy, const Runs& runs,
                          const ChannelAffine& channel) {
  const T* px = static_cast<const T*>(x);
  const T* pdy = static_cast<const T*>(dy);
  const Affine<Compute<T>> affine(channel);
  return WithFlag(channel.relu, [=](auto relu) -> ChannelSums {
    const Pair sums = SumOfPairs(runs, [=](int64_t i) -> Pair {
      const Compute<T> value = Load(px[i]);
      const Compute<T> arriving = affine.template Arriving<relu>(value, Load(pdy[i]));
      return {arriving, static_cast<double>(arriving) * (value - affine.mean)};
    });
    return {sums.first, sums.second};
  });
}

template <class T>
void Backward(const void* x, const void* dy, const Runs& runs, const ChannelAffine& channel,
              const ChannelGradient& gradient, void* dx, bool accumulate) {
  using C = Compute<T>;
  const T* px = static_cast<const T*>(x);
  const T* pdy = static_cast<const T*>(dy);
  T* to = static_cast<T*>(dx);
  const Affine<C> affine(channel);
  const C dy_factor = static_cast<C>(gradient.dy_factor);
  const C x_factor = static_cast<C>(gradient.x_factor);
  const C constant = static_cast<C>(gradient.constant);
  WithFlag(channel.relu, [=](auto relu) {
    WithFlag(accumulate, [=](auto add) {
      WithFlag(gradient.x_factor != 0, [=](auto depends_on_x) {
        ForEachIn(runs, [=](int64_t i) {
          const C value = Load(px[i]);
          const C arriving = affine.template Arriving<relu>(value, Load(pdy[i]));
          const C rest = depends_on_x ? x_factor * (value - affine.mean) + constant : constant;
          const C result = dy_factor * arriving + rest;
          to[i] = Round<T>(add ? Load(to[i]) + result : result);
        });
      });
    });
  });
}

template <class T>
void RowsForward(const RowNorm& args) {
  using C = Compute<T>;
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  for (int64_t row = 0; row < args.rows; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.width;
    T* y = static_cast<T*>(args.y) + row * args.width;
    const Runs runs = {1, 0, args.width};
    const Moments moments = args.centered ? MomentsOf(x, runs) : ShiftedMoments(x, runs, 0);
    args.means[row] = args.centered ? moments.mean : 0;
    args.inverse_deviations[row] = 1 / __builtin_sqrt(moments.variance + args.epsilon);
    const C mean = static_cast<C>(args.means[row]);
    const C scale = static_cast<C>(args.inverse_deviations[row]);
    ForEach(args.width, [=](int64_t i) {
      y[i] = Round<T>((Load(x[i]) - mean) * scale * Load(weight[i]) + Load(bias[i]));
    });
  }
}

// dx of one row. With g = dy weight and z = (x - mean) / deviation, it is
// (g - E[g] - z E[g z]) / deviation, where RmsNorm has no E[g].
template <class T>
void RowBackward(const T* x, const T* weight, const T* dy, int64_t width, bool centered,
                 double mean, double inverse_deviation, T* dx, bool accumulate) {
  using C = Compute<T>;
  const C center = static_cast<C>(mean);
  const Pair sums = SumOfPairs({1, 0, width}, [=](int64_t i) -> Pair {
    const C g = Load(dy[i]) * Load(weight[i]);
    return {g, static_cast<double>(g) * (Load(x[i]) - center)};
  });
  const double per_element = inverse_deviation / static_cast<double>(width);
  const C g_factor = static_cast<C>(inverse_deviation);
  const C x_factor =
      static_cast<C>(-sums.second * per_element * inverse_deviation * inverse_deviation);
  const C constant = static_cast<C>(centered ? -sums.first * per_element : 0);
  WithFlag(accumulate, [=](auto add) {
    ForEach(width, [=](int64_t i) {
      const C g = Load(dy[i]) * Load(weight[i]);
      const C result = g_factor * g + (x_factor * (Load(x[i]) - center) + constant);
      dx[i] = Round<T>(add ? Load(dx[i]) + result : result);
    });
  });
}

// Adds the sums of dy z and dy over kRows rows to those of the columns.
template <class T, int kRows>
void AddColumns(const T* x, const T* dy, int64_t width, const double* means,
                const double* inverse_deviations, double* weight_sums, double* bias_sums) {
  using C = Compute<T>;
  C center[kRows], scale[kRows];
  for (int row = 0; row < kRows; ++row) {
    center[row] = static_cast<C>(means[row]);
    scale[row] = static_cast<C>(inverse_deviations[row]);
  }
  ForEach(width, [=](int64_t i) {
    C weight_sum = 0, bias_sum = 0;
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const C arriving = Load(dy[row * width + i]);
      weight_sum += arriving * ((Load(x[row * width + i]) - center[row]) * scale[row]);
      bias_sum += arriving;
    }
    weight_sums[i] += weight_sum;
    bias_sums[i] += bias_sum;
  });
}

template <class T>
void RowsBackward(const RowNormBackward& args) {
  constexpr int kBlock = 8;
  for (int64_t row = 0; row < args.rows;) {
    const int64_t block = args.rows - row < kBlock ? 1 : kBlock;
    const T* x = static_cast<const T*>(args.x) + row * args.width;
    const T* dy = static_cast<const T*>(args.dy) + row * args.width;
    const double* means = args.means + row;
    const double* inverse_deviations = args.inverse_deviations + row;
    if (args.weight_sums != nullptr) {  // first: dx may lie over dy
      const auto add_columns = block == 1 ? AddColumns<T, 1> : AddColumns<T, kBlock>;
      add_columns(x, dy, args.width, means, inverse_deviations, args.weight_sums, args.bias_sums);
    }
    for (int64_t i = 0; i < block && args.dx != nullptr; ++i) {
      RowBackward(x + i * args.width, static_cast<const T*>(args.weight), dy + i * args.width,
                  args.width, args.centered, means[i], inverse_deviations[i],
                  static_cast<T*>(args.dx) + (row + i) * args.width, args.accumulate);
    }
    row += block;
  }
}

template <class T>
constexpr NormalizationKernels KernelsOf() {
  return {ChannelMoments<T>, Normalize<T>,   SumsOfChannel<T>,
          Backward<T>,       RowsForward<T>, RowsBackward<T>};
}

}  // namespace

constinit const NormalizationKernels kNormalizationKernels[kNumFloatingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
