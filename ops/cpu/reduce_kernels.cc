#include "ops/cpu/reduce_kernels.h"

#include <bit>
#include <type_traits>

#include "ops/cpu/kernel_lanes.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

template <class T>
T FromDouble(double x) {
  return Round<T>(static_cast<Compute<T>>(x));
}

template <class T>
double Sum(const void* x, int64_t n) {
  const T* elements = static_cast<const T*>(x);
  return SumOf(n, [=](int64_t i) -> double { return Load(elements[i]); });
}

template <class T>
double SumOfSquares(const void* x, int64_t n) {
  const T* elements = static_cast<const T*>(x);
  return SumOf(n, [=](int64_t i) {
    const double value = Load(elements[i]);
    return value * value;
  });
}

// Four rows at a time, so that a sum is read and written for every fourth element only.
template <class T>
void AddColumns(const void* x, int64_t rows, int64_t columns, int64_t stride, double* sums) {
  const T* row = static_cast<const T*>(x);
  int64_t left = rows;
  for (; left >= 4; left -= 4, row += 4 * stride) {
    ForEach(columns, [=](int64_t j) {
      const double upper = double{Load(row[j])} + double{Load(row[stride + j])};
      const double lower = double{Load(row[2 * stride + j])} + double{Load(row[3 * stride + j])};
      sums[j] += upper + lower;
    });
  }
  for (; left > 0; --left, row += stride) {
    ForEach(columns, [=](int64_t j) { sums[j] += double{Load(row[j])}; });
  }
}

template <class T>
void Store(const double* sums, int64_t n, void* out, bool accumulate) {
  T* to = static_cast<T*>(out);
  if (accumulate) {
    ForEach(n, [=](int64_t i) { to[i] = FromDouble<T>(double{Load(to[i])} + sums[i]); });
  } else {
    ForEach(n, [=](int64_t i) { to[i] = FromDouble<T>(sums[i]); });
  }
}

// The bits of an element's exponent, which are all set for NaN and infinity.
template <class T>
inline constexpr auto kExponent = uint32_t{0x7f800000};
template <>
inline constexpr auto kExponent<double> = uint64_t{0x7ff0000000000000};
template <>
inline constexpr auto kExponent<BFloat16> = uint16_t{0x7f80};
template <>
inline constexpr auto kExponent<Float16> = uint16_t{0x7c00};

template <class T>
bool AllFinite(const void* x, int64_t n) {
  using Bits = std::remove_const_t<decltype(kExponent<T>)>;
  const T* elements = static_cast<const T*>(x);
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Bits exponent = std::bit_cast<Bits>(elements[i]) & kExponent<T>;
    found |= exponent == kExponent<T>;
  }
  return found == 0;
}

template <class T>
void AddOne(const void* x, void* out) {
  T& sum = *static_cast<T*>(out);
  sum = Round<T>(Load(sum) + Load(*static_cast<const T*>(x)));
}

// Whether a value that comes later takes the place of `best`.
template <class C>
inline bool IsLarger(C value, C best) {
  return value > best || (value != value && best == best);
}

template <class T>
[[gnu::always_inline]] inline void MaxOfColumns(const T* x, int64_t n, int64_t stride,
                                                int64_t columns, T* values, int64_t* indices) {
  ForEach(columns, [=](int64_t j) {
    values[j] = x[j];
    indices[j] = 0;
  });
  for (int64_t i = 1; i < n; ++i) {
    const T* const row = x + i * stride;
    ForEach(columns, [=](int64_t j) {
      const bool is_larger = IsLarger(Load(row[j]), Load(values[j]));
      const T best = values[j], next = row[j];
      values[j] = is_larger ? next : best;
      indices[j] = is_larger ? i : indices[j];
    });
  }
}

// Of neighbours: lane by lane first, every kLanes-th element in one, and then over the lanes, of
// which the largest that comes first in x counts.
template <class T>
void MaxOfRow(const T* x, int64_t n, T* value, int64_t* index) {
  T values[kLanes];
  int64_t indices[kLanes];
  const int64_t rows = n / kLanes;
  if (rows > 0) MaxOfColumns(x, rows, kLanes, kLanes, values, indices);
  *value = x[0];
  *index = 0;
  const auto take = [&](T candidate, int64_t at) {
    const Compute<T> next = Load(candidate), best = Load(*value);
    const bool is_equal = !IsLarger(best, next) && !IsLarger(next, best);
    if (!IsLarger(next, best) && !(is_equal && at < *index)) return;
    *value = candidate;
    *index = at;
  };
  for (int64_t lane = 0; rows > 0 && lane < kLanes; ++lane) {
    take(values[lane], indices[lane] * kLanes + lane);
  }
  for (int64_t i = rows * kLanes; i < n; ++i) take(x[i], i);
}

template <class T>
void Max(const void* x, int64_t n, int64_t stride, int64_t columns, void* values,
         int64_t* indices) {
  if (stride == 1) {
    MaxOfRow(static_cast<const T*>(x), n, static_cast<T*>(values), indices);
  } else {
    MaxOfColumns(static_cast<const T*>(x), n, stride, columns, static_cast<T*>(values), indices);
  }
}

template <class T>
constexpr ReduceKernels KernelsOf() {
  return {Sum<T>, SumOfSquares<T>, AddColumns<T>, Store<T>, AllFinite<T>, AddOne<T>};
}

}  // namespace

constinit const ReduceKernels kReduceKernels[kNumFloatingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

constinit const MaxKernel kMaxKernels[kNumMaxDTypes] = {
    Max<float>, Max<double>, Max<BFloat16>, Max<Float16>, Max<int64_t>, Max<int32_t>, Max<uint8_t>};

}  // namespace ops::cpu::OPS_CPU_ISA
