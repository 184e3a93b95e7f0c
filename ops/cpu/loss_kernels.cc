#include "ops/cpu/loss_kernels.h"

#include "ops/cpu/kernel_lanes.h"
#include "ops/cpu/kernel_math.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

template <class T>
double SquaredError(const T* x, const T* target, int64_t n) {
  return SumOf(n, [=](int64_t i) {
    const double difference = x[i] - target[i];
    return difference * difference;
  });
}

template <class T>
void SquaredErrorBackward(const T* x, const T* target, T factor, T* dx, int64_t n,
                          bool accumulate) {
  if (accumulate) {
    ForEach(n, [=](int64_t i) { dx[i] += factor * (x[i] - target[i]); });
  } else {
    ForEach(n, [=](int64_t i) { dx[i] = factor * (x[i] - target[i]); });
  }
}

template <class T>
T Largest(const T* x, int64_t n) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = -__builtin_huge_val();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    }
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  T largest = lanes[0];
  for (const T lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

template <class T>
double CrossEntropy(const T* logits, const int64_t* targets, int64_t rows, int64_t classes,
                    T* log_sums) {
  double total = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const T* row = logits + i * classes;
    const T largest = Largest(row, classes);
    const double sum = SumOf(classes, [=](int64_t j) -> double { return Exp(row[j] - largest); });
    const double log_sum = __builtin_log(sum);
    log_sums[i] = static_cast<T>(log_sum);
    total += log_sum + (static_cast<double>(largest) - row[targets[i]]);
  }
  return total;
}

template <class T>
void CrossEntropyBackward(const T* logits, const int64_t* targets, const T* log_sums, int64_t rows,
                          int64_t classes, T factor, T* dlogits, bool accumulate) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* row = logits + i * classes;
    T* out = dlogits + i * classes;
    const T largest = Largest(row, classes), log_sum = log_sums[i];
    const auto probability = [=](int64_t j) { return Exp((row[j] - largest) - log_sum); };
    const int64_t target = targets[i];
    const T before = accumulate ? out[target] : 0;
    if (accumulate) {
      ForEach(classes, [=](int64_t j) { out[j] += factor * probability(j); });
    } else {
      ForEach(classes, [=](int64_t j) { out[j] = factor * probability(j); });
    }
    out[target] = before + factor * (probability(target) - 1);
  }
}

template <class T>
constexpr LossKernels<T> KernelsOf() {
  return {SquaredError<T>, SquaredErrorBackward<T>, CrossEntropy<T>, CrossEntropyBackward<T>};
}

}  // namespace

constinit const LossKernelTable kLossKernels = {KernelsOf<float>(), KernelsOf<double>()};

}  // namespace ops::cpu::OPS_CPU_ISA
