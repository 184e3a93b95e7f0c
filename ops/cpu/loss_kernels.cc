#include "ops/cpu/loss_kernels.h"

#include "ops/cpu/kernel_lanes.h"
#include "ops/cpu/kernel_math.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// log(1 + u) for u in [0, 1]: twice the area tangent of u / (2 + u) <= 1/3, by its series.
inline float LogOnePlus(float u) {
  const float s = u / (2 + u), square = s * s;
  float series = 2.0f / 17;
  for (const float divisor : {15.0f, 13.0f, 11.0f, 9.0f, 7.0f, 5.0f, 3.0f}) {
    series = series * square + 2 / divisor;
  }
  return (series * square) * s + 2 * s;
}

inline double LogOnePlus(double u) { return __builtin_log1p(u); }

// Losses of one element, and their slopes in x.

struct Squared {
  template <class C>
  static C Value(C x, C target, C) {
    return (x - target) * (x - target);
  }
  template <class C>
  static C Slope(C x, C target, C) {
    return 2 * (x - target);
  }
};

struct Absolute {
  template <class C>
  static C Value(C x, C target, C) {
    return x < target ? target - x : x - target;
  }
  template <class C>
  static C Slope(C x, C target, C) {
    const C sign = x > target ? C(1) : C(0);
    return x < target ? C(-1) : sign;
  }
};

struct Huber {
  template <class C>
  static C Value(C x, C target, C delta) {
    const C distance = Absolute::Value(x, target, delta);
    const C square = C(0.5) * distance * distance;
    return distance > delta ? delta * (distance - C(0.5) * delta) : square;
  }
  template <class C>
  static C Slope(C x, C target, C delta) {
    const C difference = x - target;
    const C above = difference > delta ? delta : difference;
    return difference < -delta ? -delta : above;
  }
};

struct Logistic {
  template <class C>
  static C Value(C x, C target, C) {
    const C magnitude = x < 0 ? -x : x;
    // One product, so that infinity doesn't meet its like.
    return x * ((x < 0 ? 0 : 1) - target) + LogOnePlus(Exp(-magnitude));
  }
  template <class C>
  static C Slope(C x, C target, C) {
    return 1 / (1 + Exp(-x)) - target;
  }
};

struct LogisticTarget : Logistic {
  template <class C>
  static C Slope(C x, C, C) {
    return -x;
  }
};

template <class T, class Loss>
double SumOfLosses(const void* x, const void* target, double delta, int64_t n) {
  const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(target);
  const auto limit = static_cast<Compute<T>>(delta);
  return SumOf(n, [=](int64_t i) -> double { return Loss::Value(Load(a[i]), Load(b[i]), limit); });
}

template <class T, class Loss>
void EachLoss(const void* x, const void* target, double delta, void* loss, int64_t n) {
  const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(target);
  const auto limit = static_cast<Compute<T>>(delta);
  T* out = static_cast<T*>(loss);
  ForEach(n, [=](int64_t i) { out[i] = Round<T>(Loss::Value(Load(a[i]), Load(b[i]), limit)); });
}

// to[i] = or += value(i).
template <class T, class F>
[[gnu::always_inline]] inline void Put(T* to, int64_t n, bool accumulate, F value) {
  if (accumulate) {
    ForEach(n, [=](int64_t i) { to[i] = Round<T>(Load(to[i]) + value(i)); });
  } else {
    ForEach(n, [=](int64_t i) { to[i] = Round<T>(value(i)); });
  }
}

template <class T, class Loss>
void Backward(const void* x, const void* target, double delta, const LossGradient& gradient,
              void* dx, int64_t n, bool accumulate) {
  using C = Compute<T>;
  const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(target);
  const T* dloss = static_cast<const T*>(gradient.dloss);
  const auto limit = static_cast<C>(delta), factor = static_cast<C>(gradient.factor);
  const auto slope = [=](int64_t i) { return factor * Loss::Slope(Load(a[i]), Load(b[i]), limit); };
  if (dloss == nullptr) {
    Put(static_cast<T*>(dx), n, accumulate, slope);
  } else {
    Put(static_cast<T*>(dx), n, accumulate, [=](int64_t i) { return Load(dloss[i]) * slope(i); });
  }
}

template <class T>
Compute<T> Largest(const T* x, int64_t n) {
  return LargestOf<Compute<T>>(n, [=](int64_t i) { return Load(x[i]); });
}

// The part of a row's loss that isn't its log_sum: how far the target's logit, and with smoothing
// the mean of all, lie below the largest.
template <class T>
double BelowLargest(const T* row, int64_t classes, int64_t target, double largest,
                    double smoothing) {
  const double of_target = largest - static_cast<double>(Load(row[target]));
  if (smoothing == 0) return of_target;
  const double of_all = SumOf(classes, [=](int64_t j) { return largest - Load(row[j]); });
  return (1 - smoothing) * of_target + smoothing * of_all / static_cast<double>(classes);
}

template <class T>
double CrossEntropy(const CrossEntropyRows& rows, void* log_sums, void* losses) {
  using C = Compute<T>;
  double total = 0;
  for (int64_t i = 0; i < rows.rows; ++i) {
    double loss = 0, log_sum = 0;
    if (rows.targets[i] != rows.ignore_index) {
      const T* row = static_cast<const T*>(rows.logits) + i * rows.classes;
      const C largest = Largest(row, rows.classes);
      log_sum = __builtin_log(
          SumOf(rows.classes, [=](int64_t j) -> double { return Exp(Load(row[j]) - largest); }));
      loss =
          log_sum + BelowLargest(row, rows.classes, rows.targets[i], largest, rows.label_smoothing);
    }
    static_cast<C*>(log_sums)[i] = static_cast<C>(log_sum);
    if (losses != nullptr) static_cast<T*>(losses)[i] = Round<T>(static_cast<C>(loss));
    total += loss;
  }
  return total;
}

template <class T>
void CrossEntropyBackward(const CrossEntropyRows& rows, const void* log_sums,
                          const LossGradient& gradient, void* dlogits, bool accumulate) {
  using C = Compute<T>;
  const T* dloss = static_cast<const T*>(gradient.dloss);
  const int64_t classes = rows.classes;
  const C of_target = static_cast<C>(1 - rows.label_smoothing);
  const C of_each = static_cast<C>(rows.label_smoothing / static_cast<double>(classes));
  for (int64_t i = 0; i < rows.rows; ++i) {
    const T* row = static_cast<const T*>(rows.logits) + i * classes;
    T* out = static_cast<T*>(dlogits) + i * classes;
    const int64_t target = rows.targets[i];
    if (target == rows.ignore_index) {
      if (!accumulate) ForEach(classes, [=](int64_t j) { out[j] = Round<T>(0); });
      continue;
    }
    const C largest = Largest(row, classes), log_sum = static_cast<const C*>(log_sums)[i];
    const C factor = static_cast<C>(gradient.factor) * (dloss == nullptr ? 1 : Load(dloss[i]));
    const auto difference = [=](int64_t j) {
      return Exp((Load(row[j]) - largest) - log_sum) - of_each;
    };
    const C before = accumulate ? Load(out[target]) : C(0);
    Put(out, classes, accumulate, [=](int64_t j) { return factor * difference(j); });
    out[target] = Round<T>(before + factor * (difference(target) - of_target));
  }
}

template <class T, class Loss>
constexpr ElementLossKernels Element() {
  return {SumOfLosses<T, Loss>, EachLoss<T, Loss>, Backward<T, Loss>};
}

template <class T>
constexpr LossKernels KernelsOf() {
  return {.element = {Element<T, Squared>(), Element<T, Absolute>(), Element<T, Huber>(),
                      Element<T, Logistic>(), Element<T, LogisticTarget>()},
          .cross_entropy = CrossEntropy<T>,
          .cross_entropy_backward = CrossEntropyBackward<T>};
}

}  // namespace

constinit const LossKernels kLossKernels[kNumFloatingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
