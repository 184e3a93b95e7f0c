// Attention's two directions, against their number of multiplications:
//
//   bazel run //ops/cpu:attention_benchmark
//
// {batch, time, heads, head width, threads}.
#include <benchmark/benchmark.h>

#include <cmath>

#include "ops/cpu/attention.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"

namespace ops::cpu {
namespace {

struct Inputs {
  explicit Inputs(const benchmark::State& state)
      : parameters{state.range(2), /*causal=*/true,
                   1 / std::sqrt(static_cast<double>(state.range(3)))} {
    Generator generator(1);
    const int64_t batch = state.range(0), time = state.range(1);
    const int64_t width = state.range(2) * state.range(3);
    qkv = Tensor::Randn({batch, time, 3 * width}, generator);
    out = Tensor::Randn({batch, time, width}, generator);
    log_sums = Tensor::Empty({batch, state.range(2), time});
    AttentionForward(qkv, out, log_sums, parameters);
  }

  AttentionParameters parameters;
  Tensor qkv, out, log_sums;
};

// `products` of a matrix [time, time] and a head's rows, half of it future.
void ReportFlops(benchmark::State& state, double products) {
  const double time = static_cast<double>(state.range(1));
  const double flops = products * time * (time + 1) *
                       static_cast<double>(state.range(0) * state.range(2) * state.range(3));
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void Forward(benchmark::State& state) {
  const Inputs in(state);
  ThreadPool pool(static_cast<int>(state.range(4)));
  const ScopedThreadPool use(&pool);
  for (auto _ : state) AttentionForward(in.qkv, in.out, in.log_sums, in.parameters);
  ReportFlops(state, 2);
}

void Backward(benchmark::State& state) {
  const Inputs in(state);
  ThreadPool pool(static_cast<int>(state.range(4)));
  const ScopedThreadPool use(&pool);
  const Tensor dqkv = in.qkv.Clone();
  for (auto _ : state) {
    AttentionBackward(in.qkv, in.out, in.log_sums, in.out, dqkv, false, in.parameters);
  }
  ReportFlops(state, 5);
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t threads : {1, 2}) {
    benchmark->Args({4, 128, 4, 64, threads});
    benchmark->Args({1, 1024, 4, 64, threads});
  }
  benchmark->UseRealTime();
}

BENCHMARK(Forward)->Apply(Shapes);
BENCHMARK(Backward)->Apply(Shapes);

}  // namespace
}  // namespace ops::cpu
