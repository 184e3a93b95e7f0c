// The loops of optimizer.h for one dtype. What a step doesn't need, weight decay or momentum, has
// no instruction in its loop.
#pragma once

#include <cstdint>

namespace ops::cpu {

// Elements that lie one after the other, and their states.
struct StepPart {
  int64_t count;
  void* parameter;
  const void* gradient;
  void* states[2];
};

struct SgdConstants {
  double learning_rate, momentum, weight_decay;
};

struct AdamConstants {
  double beta1, beta2;
  double step_size;        // learning rate / (1 - beta1^t)
  double root_correction;  // sqrt(1 - beta2^t)
  double epsilon;
  double weight_decay;  // coupled: of the gradient
  double keep;          // decoupled: 1 - learning rate * weight decay
};

struct LionConstants {
  double learning_rate, beta1, beta2;
  double keep;  // 1 - learning rate * weight decay
};

enum class Momentum { kNone, kPlain, kNesterov };
enum class WeightDecay { kNone, kCoupled, kDecoupled };

struct OptimizerKernels {
  void (*sgd[3][2])(const StepPart&, const SgdConstants&);  // [Momentum][has decay]
  void (*adam[3])(const StepPart&, const AdamConstants&);   // [WeightDecay]
  void (*lion)(const StepPart&, const LionConstants&);
  void (*average)(const StepPart&, double decay);
};

inline constexpr int kNumParameterDTypes = 4;

namespace baseline {
extern const OptimizerKernels kOptimizerKernels[kNumParameterDTypes];  // by DType
}
namespace avx2 {
extern const OptimizerKernels kOptimizerKernels[kNumParameterDTypes];
}
namespace avx512 {
extern const OptimizerKernels kOptimizerKernels[kNumParameterDTypes];
}

}  // namespace ops::cpu
