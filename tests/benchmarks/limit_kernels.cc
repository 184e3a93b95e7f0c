#include "tests/benchmarks/limit_kernels.h"

namespace benchmarks::OPS_CPU_ISA {
namespace {

typedef float Vector __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));

// As many sums as hide a multiplication's latency on every CPU, and fit 16 registers.
double MultiplyAdd(int64_t rounds, float* sink) {
  constexpr int kSums = 12;
  Vector sums[kSums] = {};
  const Vector a = Vector{} + 0.999f, b = Vector{} + 0.001f;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) {
      sums[j] = sums[j] * a + b;
      asm("" : "+x"(sums[j]));  // each in its register, none merged with another
    }
  }
  for (const Vector& sum : sums) *sink += sum[0];
  return 2.0 * kSums * (sizeof(Vector) / sizeof(float)) * static_cast<double>(rounds);
}

void Update(void* x, int64_t num_bytes) {
  for (int64_t i = 0; i < num_bytes; i += 64) {
    Vector values[64 / sizeof(Vector)];
    __builtin_memcpy(values, static_cast<char*>(x) + i, 64);
    for (Vector& value : values) value += 1;
    __builtin_memcpy(static_cast<char*>(x) + i, values, 64);
  }
}

}  // namespace

constinit const LimitKernels kLimitKernels = {MultiplyAdd, Update};

}  // namespace benchmarks::OPS_CPU_ISA
