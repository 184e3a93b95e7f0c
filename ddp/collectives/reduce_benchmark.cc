#include <benchmark/benchmark.h>

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

// a[i] += b[i] and c[i] = a[i] + b[i], as the compiler makes them: what Reduce is measured against.

void AddInPlace(benchmark::State& state) {
  const int64_t n = state.range(0) / sizeof(float);
  const Memory memory[] = {Allocate(state.range(0)), Allocate(state.range(0))};
  float* const a = reinterpret_cast<float*>(memory[0].get());
  const float* const b = reinterpret_cast<const float*>(memory[1].get());
  for (auto _ : state) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) a[i] += b[i];
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void AddOutOfPlace(benchmark::State& state) {
  const int64_t n = state.range(0) / sizeof(float);
  const Memory memory[] = {Allocate(state.range(0)), Allocate(state.range(0)),
                           Allocate(state.range(0))};
  const float* const a = reinterpret_cast<const float*>(memory[0].get());
  const float* const b = reinterpret_cast<const float*>(memory[1].get());
  float* const c = reinterpret_cast<float*>(memory[2].get());
  for (auto _ : state) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
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

BENCHMARK(AddInPlace)->Apply(Sizes);
BENCHMARK(AddOutOfPlace)->Apply(Sizes);

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
