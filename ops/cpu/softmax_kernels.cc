#include "ops/cpu/softmax_kernels.h"

#include "ops/cpu/kernel_lanes.h"
#include "ops/cpu/kernel_math.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// How a kind of softmax gets its values and gradients, from sums over the row or column.
struct Plain {
  // What was calculated for the sum needs but scaling, where it can be kept in y meanwhile.
  static constexpr bool kIsScaledExponential = true;
  // `sum` is that of exp(x - largest): what Value needs to know of it.
  static double Normalizer(double sum) { return 1 / sum; }
  template <class C>
  static C Value(C above_largest, C normalizer) {
    return Exp(above_largest) * normalizer;
  }
  template <class C>
  static C Summand(C y, C dy) {
    return y * dy;
  }
  template <class C>
  static C Gradient(C y, C dy, C sum) {
    return y * (dy - sum);
  }
};

struct Logarithm {
  static constexpr bool kIsScaledExponential = false;
  static double Normalizer(double sum) { return __builtin_log(sum); }
  template <class C>
  static C Value(C above_largest, C normalizer) {
    return above_largest - normalizer;
  }
  template <class C>
  static C Summand(C, C dy) {
    return dy;
  }
  template <class C>
  static C Gradient(C y, C dy, C sum) {
    return dy - Exp(y) * sum;
  }
};

template <class T, class Kind>
void RowsForward(const void* x, int64_t rows, int64_t length, void* y) {
  using C = Compute<T>;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  for (int64_t row = 0; row < rows; ++row, from += length, to += length) {
    const C largest = LargestOf<C>(length, [=](int64_t i) { return Load(from[i]); });
    const auto exponential = [=](int64_t i) { return Exp(Load(from[i]) - largest); };
    if constexpr (Kind::kIsScaledExponential && std::is_same_v<T, C>) {
      const double sum = SumOf(length, [=](int64_t i) -> double { return to[i] = exponential(i); });
      const C normalizer = static_cast<C>(Kind::Normalizer(sum));
      ForEach(length, [=](int64_t i) { to[i] *= normalizer; });
    } else {
      const double sum = SumOf(length, [=](int64_t i) -> double { return exponential(i); });
      const C normalizer = static_cast<C>(Kind::Normalizer(sum));
      ForEach(length, [=](int64_t i) {
        to[i] = Round<T>(Kind::Value(Load(from[i]) - largest, normalizer));
      });
    }
  }
}

template <class T, class Kind, bool kAccumulate>
void RowsGradient(const T* y, const T* dy, int64_t rows, int64_t length, T* dx) {
  using C = Compute<T>;
  for (int64_t row = 0; row < rows; ++row, y += length, dy += length, dx += length) {
    const C sum = static_cast<C>(
        SumOf(length, [=](int64_t i) -> double { return Kind::Summand(Load(y[i]), Load(dy[i])); }));
    ForEach(length, [=](int64_t i) {
      const C gradient = Kind::Gradient(Load(y[i]), Load(dy[i]), sum);
      dx[i] = Round<T>(kAccumulate ? Load(dx[i]) + gradient : gradient);
    });
  }
}

template <class T, class Kind>
void RowsBackward(const void* y, const void* dy, int64_t rows, int64_t length, void* dx,
                  bool accumulate) {
  const auto run = accumulate ? RowsGradient<T, Kind, true> : RowsGradient<T, Kind, false>;
  run(static_cast<const T*>(y), static_cast<const T*>(dy), rows, length, static_cast<T*>(dx));
}

template <class T, class Kind>
void ColumnsForward(const void* x, int64_t length, int64_t stride, int64_t columns, void* y) {
  using C = Compute<T>;
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(y);
  C largest[kSoftmaxColumns], normalizer[kSoftmaxColumns];
  double sums[kSoftmaxColumns] = {};
  for (C& top : largest) top = -__builtin_huge_val();
  for (int64_t i = 0; i < length; ++i) {
    const T* const row = from + i * stride;
    ForEach(columns, [&, row](int64_t j) {
      largest[j] = Load(row[j]) > largest[j] ? Load(row[j]) : largest[j];
    });
  }
  for (int64_t i = 0; i < length; ++i) {
    const T* const row = from + i * stride;
    ForEach(columns, [&, row](int64_t j) { sums[j] += Exp(Load(row[j]) - largest[j]); });
  }
  for (int64_t j = 0; j < columns; ++j) normalizer[j] = static_cast<C>(Kind::Normalizer(sums[j]));
  for (int64_t i = 0; i < length; ++i) {
    const T* const row = from + i * stride;
    T* const out = to + i * stride;
    ForEach(columns, [&, row, out](int64_t j) {
      out[j] = Round<T>(Kind::Value(Load(row[j]) - largest[j], normalizer[j]));
    });
  }
}

template <class T, class Kind>
void ColumnsBackward(const void* y, const void* dy, int64_t length, int64_t stride, int64_t columns,
                     void* dx, bool accumulate) {
  using C = Compute<T>;
  const T *const values = static_cast<const T*>(y), *const arriving = static_cast<const T*>(dy);
  T* const to = static_cast<T*>(dx);
  double sums[kSoftmaxColumns] = {};
  for (int64_t i = 0; i < length; ++i) {
    const T *const row = values + i * stride, *const gradient = arriving + i * stride;
    ForEach(columns, [&, row, gradient](int64_t j) {
      sums[j] += Kind::Summand(Load(row[j]), Load(gradient[j]));
    });
  }
  for (int64_t i = 0; i < length; ++i) {
    const T *const row = values + i * stride, *const gradient = arriving + i * stride;
    T* const out = to + i * stride;
    ForEach(columns, [&, row, gradient, out, accumulate](int64_t j) {
      const C value = Kind::Gradient(Load(row[j]), Load(gradient[j]), static_cast<C>(sums[j]));
      out[j] = Round<T>(accumulate ? Load(out[j]) + value : value);
    });
  }
}

template <class T, class Kind>
constexpr SoftmaxKernels KernelsOf() {
  return {RowsForward<T, Kind>, RowsBackward<T, Kind>, ColumnsForward<T, Kind>,
          ColumnsBackward<T, Kind>};
}

}  // namespace

constinit const SoftmaxKernels kSoftmaxKernels[2][kNumSoftmaxDTypes] = {
    {KernelsOf<float, Plain>(), KernelsOf<double, Plain>(), KernelsOf<BFloat16, Plain>(),
     KernelsOf<Float16, Plain>()},
    {KernelsOf<float, Logarithm>(), KernelsOf<double, Logarithm>(),
     KernelsOf<BFloat16, Logarithm>(), KernelsOf<Float16, Logarithm>()}};

}  // namespace ops::cpu::OPS_CPU_ISA
