// What a batch costs the thread that trains, when batches are ready and when it must wait.
//   bazel run //ddp/data:data_loader_benchmark
#include <benchmark/benchmark.h>

#include <chrono>

#include "ddp/data/data_loader.h"

namespace ddp {
namespace {

// The argument: prefetch_batches.
void Run(benchmark::State& state, const ops::Shape& row, int64_t batch_size, double step_seconds) {
  constexpr int64_t kSize = 10'000;
  const TensorDataset dataset(ops::Tensor::Zeros(row.Prepend(kSize)), ops::Tensor::Zeros({kSize}));
  DataLoader loader(
      dataset, DistributedSampler(kSize),
      {.batch_size = batch_size, .prefetch_batches = static_cast<int>(state.range(0))});
  using Clock = std::chrono::steady_clock;
  for (auto _ : state) {
    std::optional<Batch> batch = loader.Next();
    benchmark::DoNotOptimize(batch);
    if (step_seconds > 0) {  // what else a step does
      const auto end = Clock::now() + std::chrono::duration<double>(step_seconds);
      while (Clock::now() < end) {
      }
    }
  }
  state.counters["wait_share"] =
      benchmark::Counter(loader.wait_seconds(), benchmark::Counter::kIsRate);
}

void TinyBatches(benchmark::State& state) { Run(state, {5}, 20, 0); }
void TinyBatchesInSteps(benchmark::State& state) { Run(state, {5}, 20, 2e-6); }
void ImageBatchesInSteps(benchmark::State& state) { Run(state, {784}, 64, 1e-3); }
BENCHMARK(TinyBatches)->Arg(0)->Arg(8)->UseRealTime();
BENCHMARK(TinyBatchesInSteps)->Arg(0)->Arg(8)->UseRealTime();
BENCHMARK(ImageBatchesInSteps)->Arg(0)->Arg(8)->UseRealTime();

}  // namespace
}  // namespace ddp
