#include "ops/cpu/rotary_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

template <class T, bool kAccumulate>
inline T Result(T before, Compute<T> value) {
  return Round<T>(kAccumulate ? Load(before) + value : value);
}

template <class T, bool kAccumulate>
void RotateRow(const RotaryRow& row, const double* cosines, const double* sines) {
  using C = Compute<T>;
  const int64_t half = row.half;
  const T* x = static_cast<const T*>(row.x);
  T* y = static_cast<T*>(row.y);
  for (int64_t head = 0; head < row.num_heads; ++head, x += 2 * half, y += 2 * half) {
    ForEach(half, [=](int64_t i) {
      const C a = Load(x[i]), b = Load(x[i + half]);
      const C cosine = static_cast<C>(cosines[i]), sine = static_cast<C>(sines[i]);
      y[i] = Result<T, kAccumulate>(y[i], a * cosine - b * sine);
      y[i + half] = Result<T, kAccumulate>(y[i + half], b * cosine + a * sine);
    });
  }
  ForEach(row.num_values, [=](int64_t i) { y[i] = Result<T, kAccumulate>(y[i], Load(x[i])); });
}

template <class T>
void Rotate(const RotaryRow& row, const double* cosines, const double* sines, bool accumulate) {
  accumulate ? RotateRow<T, true>(row, cosines, sines) : RotateRow<T, false>(row, cosines, sines);
}

}  // namespace

constinit const RotaryKernels kRotaryKernels[kNumRotaryDTypes] = {
    {Rotate<float>}, {Rotate<double>}, {Rotate<BFloat16>}, {Rotate<Float16>}};

}  // namespace ops::cpu::OPS_CPU_ISA
