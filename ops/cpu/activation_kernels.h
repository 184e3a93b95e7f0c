// The loops of activation.h for one dtype: contiguous elements, any alignment. The output may be an
// input itself.
#pragma once

#include <cstdint>

namespace ops::cpu {

inline constexpr int kNumActivations = 7;

// Which elements a dropout keeps: those whose random number, of 32 bits, is at least `threshold`.
struct DropoutDraw {
  uint64_t seed;
  uint64_t step;
  uint64_t position;   // of the first element: its number is word `position` of the sequence
  uint64_t threshold;  // at most 2^32
  double factor;       // of those kept
};

struct ActivationKernels {
  using Forward = void (*)(const void* x, double parameter, void* y, int64_t n);
  // `kept` is y or x, see NeedsOutput.
  using Backward = void (*)(const void* kept, const void* dy, double parameter, void* dx, int64_t n,
                            bool accumulate);

  Forward forward[kNumActivations];  // by Activation
  Backward backward[kNumActivations];
  void (*add_relu)(const void* a, const void* b, void* y, int64_t n);
  // y = silu(gate) up.
  void (*swiglu)(const void* gate, const void* up, void* y, int64_t n, bool accumulate);
  void (*swiglu_gate)(const void* gate, const void* up, const void* dy, void* dgate, int64_t n,
                      bool accumulate);
  void (*dropout)(const void* x, const DropoutDraw& draw, void* y, int64_t n, bool accumulate);
};

inline constexpr int kNumFloatingDTypes = 4;

namespace baseline {
extern const ActivationKernels kActivationKernels[kNumFloatingDTypes];  // by DType
}
namespace avx2 {
extern const ActivationKernels kActivationKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const ActivationKernels kActivationKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
