#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/reduce.h"

namespace ddp {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

constexpr int64_t kPageBytes = 4096;

Memory Allocate(int64_t num_bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, num_bytes)));
  std::fill_n(memory.get(), num_bytes, std::byte{0});
  return memory;
}

// What Reduce is measured against: to[i] = a[i] + b[i], as the compiler makes it for AVX2.
[[gnu::target("avx2"), gnu::noinline]] void Add(const float* a, const float* b, float* to,
                                                int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = a[i] + b[i];
}

void PlainLoop(benchmark::State& state, bool in_place) {
  const Memory memory[] = {Allocate(state.range(0)), Allocate(state.range(0)),
                           Allocate(state.range(0))};
  float* floats[3];
  for (int k = 0; k < 3; ++k) floats[k] = reinterpret_cast<float*>(memory[k].get());
  for (auto _ : state) {
    Add(floats[0], floats[1], floats[in_place ? 0 : 2], state.range(0) / sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

enum class Place { kFirst, kNew, kAll };  // the outputs: input 0, a buffer of its own, all inputs

void Reductions(benchmark::State& state, ReduceOp op, ops::DType dtype, int num_inputs,
                Place place) {
  const int64_t num_bytes = state.range(0);
  std::vector<Memory> memory;
  std::vector<const void*> inputs;
  for (int k = 0; k < num_inputs; ++k) {
    memory.push_back(Allocate(num_bytes));
    inputs.push_back(memory.back().get());
  }
  if (place == Place::kNew) memory.push_back(Allocate(num_bytes));
  std::vector<void*> outputs;
  for (const Memory& buffer : memory) outputs.push_back(buffer.get());
  if (place == Place::kFirst) outputs = {outputs.front()};
  if (place == Place::kNew) outputs = {outputs.back()};
  for (auto _ : state) {
    Reduce(op, dtype, inputs, outputs, num_bytes / ops::SizeOf(dtype));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * num_bytes);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t num_bytes : {4 << 10, 64 << 10, 1 << 20, 16 << 20}) benchmark->Arg(num_bytes);
}

BENCHMARK_CAPTURE(PlainLoop, in_place, true)->Apply(Sizes);
BENCHMARK_CAPTURE(PlainLoop, out_of_place, false)->Apply(Sizes);

#define REDUCTION(name, ...) BENCHMARK_CAPTURE(Reductions, name, __VA_ARGS__)->Apply(Sizes)

REDUCTION(sum_2_in_place, ReduceOp::kSum, ops::DType::kFloat32, 2, Place::kFirst);
REDUCTION(sum_2, ReduceOp::kSum, ops::DType::kFloat32, 2, Place::kNew);
REDUCTION(sum_2_to_all, ReduceOp::kSum, ops::DType::kFloat32, 2, Place::kAll);
REDUCTION(sum_4_to_all, ReduceOp::kSum, ops::DType::kFloat32, 4, Place::kAll);
REDUCTION(sum_8, ReduceOp::kSum, ops::DType::kFloat32, 8, Place::kNew);
REDUCTION(average_2_in_place, ReduceOp::kAverage, ops::DType::kFloat32, 2, Place::kFirst);
REDUCTION(average_3_in_place, ReduceOp::kAverage, ops::DType::kFloat32, 3, Place::kFirst);
REDUCTION(bfloat16_sum_2_in_place, ReduceOp::kSum, ops::DType::kBFloat16, 2, Place::kFirst);
REDUCTION(float16_sum_2_in_place, ReduceOp::kSum, ops::DType::kFloat16, 2, Place::kFirst);

}  // namespace
}  // namespace ddp
