#include "ops/cpu/reduce_kernels.h"

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

// x - x is 0, but NaN for NaN and infinity: and so is the sum of all.
template <class T>
bool AllFinite(const void* x, int64_t n) {
  const T* elements = static_cast<const T*>(x);
  return SumOf(n, [=](int64_t i) -> double {
           const Compute<T> value = Load(elements[i]);
           return value - value;
         }) == 0;
}

template <class T>
constexpr ReduceKernels KernelsOf() {
  return {Sum<T>, SumOfSquares<T>, AddColumns<T>, Store<T>, AllFinite<T>};
}

}  // namespace

constinit const ReduceKernels kReduceKernels[kNumFloatingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
