#include "ops/cpu/optimizer_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

inline float Root(float x) { return __builtin_sqrtf(x); }
inline double Root(double x) { return __builtin_sqrt(x); }

// A part's pointers with their types.
template <class T>
struct Typed {
  explicit Typed(const StepPart& part)
      : count(part.count),
        p(static_cast<T*>(part.parameter)),
        g(static_cast<const T*>(part.gradient)),
        first(static_cast<Compute<T>*>(part.states[0])),
        second(static_cast<Compute<T>*>(part.states[1])) {}

  int64_t count;
  T* p;
  const T* g;
  Compute<T>* first;
  Compute<T>* second;
};

template <class T, Momentum kMomentum, bool kDecay>
void Sgd(const StepPart& part, const SgdConstants& constants) {
  using C = Compute<T>;
  const Typed<T> at(part);
  const C rate = static_cast<C>(constants.learning_rate);
  const C momentum = static_cast<C>(constants.momentum);
  const C decay = static_cast<C>(constants.weight_decay);
  ForEach(at.count, [=](int64_t i) {
    const C parameter = Load(at.p[i]);
    C step = Load(at.g[i]);
    if constexpr (kDecay) step += decay * parameter;
    if constexpr (kMomentum != Momentum::kNone) {
      const C buffer = momentum * at.first[i] + step;
      at.first[i] = buffer;
      step = kMomentum == Momentum::kNesterov ? step + momentum * buffer : buffer;
    }
    at.p[i] = Round<T>(parameter - rate * step);
  });
}

template <class T, WeightDecay kDecay>
void Adam(const StepPart& part, const AdamConstants& constants) {
  using C = Compute<T>;
  const Typed<T> at(part);
  const C beta1 = static_cast<C>(constants.beta1), beta2 = static_cast<C>(constants.beta2);
  const C one_minus_beta1 = static_cast<C>(1 - constants.beta1);
  const C one_minus_beta2 = static_cast<C>(1 - constants.beta2);
  const C step_size = static_cast<C>(constants.step_size);
  const C root_correction = static_cast<C>(constants.root_correction);
  const C epsilon = static_cast<C>(constants.epsilon);
  const C decay = static_cast<C>(constants.weight_decay);
  const C keep = static_cast<C>(constants.keep);
  ForEach(at.count, [=](int64_t i) {
    C parameter = Load(at.p[i]);
    C gradient = Load(at.g[i]);
    if constexpr (kDecay == WeightDecay::kCoupled) gradient += decay * parameter;
    if constexpr (kDecay == WeightDecay::kDecoupled) parameter *= keep;
    const C m = beta1 * at.first[i] + one_minus_beta1 * gradient;
    const C v = beta2 * at.second[i] + one_minus_beta2 * gradient * gradient;
    at.first[i] = m;
    at.second[i] = v;
    at.p[i] = Round<T>(parameter - step_size * m / (Root(v) / root_correction + epsilon));
  });
}

template <class T>
void Lion(const StepPart& part, const LionConstants& constants) {
  using C = Compute<T>;
  const Typed<T> at(part);
  const C rate = static_cast<C>(constants.learning_rate);
  const C beta1 = static_cast<C>(constants.beta1), beta2 = static_cast<C>(constants.beta2);
  const C one_minus_beta1 = static_cast<C>(1 - constants.beta1);
  const C one_minus_beta2 = static_cast<C>(1 - constants.beta2);
  const C keep = static_cast<C>(constants.keep);
  ForEach(at.count, [=](int64_t i) {
    const C gradient = Load(at.g[i]);
    const C mixed = beta1 * at.first[i] + one_minus_beta1 * gradient;
    const C positive = mixed > 0 ? C(1) : mixed;  // zero and NaN stay
    const C sign = mixed < 0 ? C(-1) : positive;
    at.first[i] = beta2 * at.first[i] + one_minus_beta2 * gradient;
    at.p[i] = Round<T>(keep * Load(at.p[i]) - rate * sign);
  });
}

template <class T>
void Average(const StepPart& part, double decay) {
  const Typed<T> at(part);
  const Compute<T> weight = static_cast<Compute<T>>(1 - decay);
  ForEach(at.count, [=](int64_t i) { at.first[i] += weight * (Load(at.p[i]) - at.first[i]); });
}

template <class T>
constexpr OptimizerKernels KernelsOf() {
  return {
      .sgd = {{Sgd<T, Momentum::kNone, false>, Sgd<T, Momentum::kNone, true>},
              {Sgd<T, Momentum::kPlain, false>, Sgd<T, Momentum::kPlain, true>},
              {Sgd<T, Momentum::kNesterov, false>, Sgd<T, Momentum::kNesterov, true>}},
      .adam = {Adam<T, WeightDecay::kNone>, Adam<T, WeightDecay::kCoupled>,
               Adam<T, WeightDecay::kDecoupled>},
      .lion = Lion<T>,
      .average = Average<T>,
  };
}

}  // namespace

constinit const OptimizerKernels kOptimizerKernels[kNumParameterDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
