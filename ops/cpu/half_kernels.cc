#include "ops/cpu/half_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

template <class T>
void LoadAll(const void* from, float* to, int64_t n) {
  const T* const x = static_cast<const T*>(from);
  ForEach(n, [=](int64_t i) { to[i] = Load(x[i]); });
}

template <class T>
void RoundAll(const float* from, void* to, int64_t n) {
  T* const y = static_cast<T*>(to);
  ForEach(n, [=](int64_t i) { y[i] = Round<T>(from[i]); });
}

template <class T>
constexpr HalfKernels KernelsOf() {
  return {LoadAll<T>, RoundAll<T>};
}

}  // namespace

constinit const HalfKernelTable kHalfKernels = {KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
