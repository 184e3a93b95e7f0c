#include "ops/cpu/optimizer_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

inline float Root(float x) { return __builtin_sqrtf(x); }
inline double Root(double x) { return __builtin_sqrt(x); }

template <class T, Momentum kMomentum, bool kDecay>
void Sgd(const SgdArguments<T>& arguments, int64_t begin, int64_t end) {
  T* const p = arguments.parameter + begin;
  const T* const g = arguments.gradient + begin;
  T* const buffer = kMomentum == Momentum::kNone ? nullptr : arguments.momentum_buffer + begin;
  const T rate = arguments.learning_rate;
  const T momentum = arguments.momentum;
  const T decay = arguments.weight_decay;
  ForEach(end - begin, [=](int64_t i) {
    T step = g[i];
    if constexpr (kDecay) step += decay * p[i];
    if constexpr (kMomentum == Momentum::kLater) step = momentum * buffer[i] + step;
    if constexpr (kMomentum != Momentum::kNone) buffer[i] = step;
    p[i] -= rate * step;
  });
}

template <class T, WeightDecay kDecay>
void Adam(const AdamArguments<T>& arguments, int64_t begin, int64_t end) {
  const AdamArguments<T> a = arguments;
  T* const p = a.parameter + begin;
  const T* const g = a.gradient + begin;
  T* const first = a.first_moment + begin;
  T* const second = a.second_moment + begin;
  ForEach(end - begin, [=](int64_t i) {
    T parameter = p[i];
    T gradient = g[i];
    if constexpr (kDecay == WeightDecay::kCoupled) gradient += a.weight_decay * parameter;
    if constexpr (kDecay == WeightDecay::kDecoupled) parameter *= a.keep;
    const T m = a.beta1 * first[i] + a.one_minus_beta1 * gradient;
    const T v = a.beta2 * second[i] + a.one_minus_beta2 * gradient * gradient;
    first[i] = m;
    second[i] = v;
    p[i] = parameter - a.step_size * m / (Root(v) / a.root_correction + a.epsilon);
  });
}

template <class T>
constexpr OptimizerKernels<T> KernelsOf() {
  return {
      .sgd = {{Sgd<T, Momentum::kNone, false>, Sgd<T, Momentum::kNone, true>},
              {Sgd<T, Momentum::kFirstStep, false>, Sgd<T, Momentum::kFirstStep, true>},
              {Sgd<T, Momentum::kLater, false>, Sgd<T, Momentum::kLater, true>}},
      .adam = {Adam<T, WeightDecay::kNone>, Adam<T, WeightDecay::kCoupled>,
               Adam<T, WeightDecay::kDecoupled>},
  };
}

}  // namespace

constinit const OptimizerKernelTable kOptimizerKernels = {KernelsOf<float>(), KernelsOf<double>()};

}  // namespace ops::cpu::OPS_CPU_ISA
