#include "tests/benchmarks/limit_kernels.h"

namespace benchmarks::OPS_CPU_ISA {
namespace {

typedef float Vector __attribute__((vector_size(__BIGGEST_ALIGNMENT__)));

// As many sums as hide a multiplication's latency on every CPU, and fit 16 registers.
constexpr int kSums = 12;

[[gnu::always_inline]] inline void MultiplyAddTo(Vector& sum, Vector a, Vector b) {
  sum = sum * a + b;
  asm("" : "+x"(sum));  // in its register, and merged with no other
}

// Each sum a variable of its own, not an element of an array: that would lie in memory.
double MultiplyAdd(int64_t rounds, float* sink) {
  const Vector a = Vector{} + 0.999f, b = Vector{} + 0.001f;
  Vector s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, s10{}, s11{};
  const auto for_each_sum = [&](auto f) {
    f(s0), f(s1), f(s2), f(s3), f(s4), f(s5), f(s6), f(s7), f(s8), f(s9), f(s10), f(s11);
  };
  for (int64_t i = 0; i < rounds; ++i) {
    for_each_sum([&](Vector & sum) __attribute__((always_inline)) { MultiplyAddTo(sum, a, b); });
  }
  for_each_sum([&](const Vector& sum) __attribute__((always_inline)) { *sink += sum[0]; });
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
