// The loops of optimizer.h for one dtype. What a step doesn't need, weight decay or momentum, has
// no instruction in its loop.
#pragma once

#include <cstdint>

namespace ops::cpu {

template <class T>
struct SgdArguments {
  T* parameter;
  const T* gradient;
  T* momentum_buffer;
  T learning_rate;
  T momentum;
  T weight_decay;
};

template <class T>
struct AdamArguments {
  T* parameter;
  const T* gradient;
  T* first_moment;
  T* second_moment;
  T beta1, one_minus_beta1;
  T beta2, one_minus_beta2;
  T step_size;        // learning rate / (1 - beta1^t)
  T root_correction;  // sqrt(1 - beta2^t)
  T epsilon;
  T weight_decay;  // coupled: of the gradient
  T keep;          // decoupled: 1 - learning rate * weight decay
};

enum class Momentum { kNone, kFirstStep, kLater };
enum class WeightDecay { kNone, kCoupled, kDecoupled };

// Each takes its elements [begin, end).
template <class T>
struct OptimizerKernels {
  void (*sgd[3][2])(const SgdArguments<T>&, int64_t begin, int64_t end);  // [Momentum][has decay]
  void (*adam[3])(const AdamArguments<T>&, int64_t begin, int64_t end);   // [WeightDecay]
};

struct OptimizerKernelTable {
  OptimizerKernels<float> float32;
  OptimizerKernels<double> float64;
};

namespace baseline {
extern const OptimizerKernelTable kOptimizerKernels;
}
namespace avx2 {
extern const OptimizerKernelTable kOptimizerKernels;
}
namespace avx512 {
extern const OptimizerKernelTable kOptimizerKernels;
}

}  // namespace ops::cpu
