// The loops of reduce.h for one operation and one dtype: see ops/cpu/isa.h.
#pragma once

#include <cstdint>

namespace ddp {

// All null for an operation that the dtype doesn't have. What accumulators are: AccumulatorOf.
struct ReduceKernels {
  // outputs[j][i] = inputs[0][i] op ... op inputs[num_inputs - 1][i]; outputs may be inputs.
  void (*reduce)(const void* const* inputs, int64_t num_inputs, void* const* outputs,
                 int64_t num_outputs, int64_t n);
  // accumulators[i] = (accumulators[i] op, if go_on) inputs[0][i] op ...
  void (*accumulate)(const void* const* inputs, int64_t num_inputs, void* accumulators, bool go_on,
                     int64_t n);
  // out[i] = accumulators[i], divided by num_ranks for an average.
  void (*finish)(const void* accumulators, int64_t num_ranks, void* out, int64_t n);
};

// out[i] = x[i] * factor, calculated in float64.
using MultiplyKernel = void (*)(const void* x, double factor, void* out, int64_t n);

inline constexpr int kNumReduceOps = 9;
inline constexpr int kNumReduceDTypes = 7;

struct ReduceKernelTable {
  ReduceKernels reduce[kNumReduceOps][kNumReduceDTypes];  // by ReduceOp and DType
  MultiplyKernel multiply[kNumReduceDTypes];              // null for integers
};

namespace baseline {
extern const ReduceKernelTable kReduceKernels;
}  // namespace baseline
namespace avx2 {
extern const ReduceKernelTable kReduceKernels;
}  // namespace avx2
namespace avx512 {
extern const ReduceKernelTable kReduceKernels;
}  // namespace avx512

}  // namespace ddp
