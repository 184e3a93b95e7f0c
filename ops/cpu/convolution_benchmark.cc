// How fast convolutions and poolings are; the shapes are those of the models in launch/models and
// some of larger networks:
//
//   bazel run //ops/cpu:convolution_benchmark
//   DDP_CPU_ISA=avx2 bazel run //ops/cpu:convolution_benchmark -- --benchmark_filter=Pool
#include <benchmark/benchmark.h>

#include "ops/cpu/convolution.h"
#include "ops/cpu/convolution_weight_gradient.h"
#include "ops/cpu/pooling.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"

namespace ops::cpu {
namespace {

Tensor Random(const Shape& shape) {
  Generator generator(1);
  return Tensor::Rand(shape, generator);
}

// {batch, in, extent, out, kernel, stride, threads, groups}; padding keeps the extent.
struct Convolution {
  explicit Convolution(const benchmark::State& state)
      : pool(static_cast<int>(state.range(6))),
        use(&pool),
        shape{state.range(0), state.range(1), state.range(3),
              state.range(7), AxisOf(state),  AxisOf(state)},
        x(Random({shape.batch, shape.in_channels, shape.height.in, shape.width.in})),
        weight(Random({shape.out_channels, shape.in_channels / shape.groups, shape.height.kernel,
                       shape.width.kernel})),
        bias(Random({shape.out_channels})),
        y(Random({shape.batch, shape.out_channels, shape.height.out, shape.width.out})) {}

  static ConvolutionAxis AxisOf(const benchmark::State& state) {
    const int64_t in = state.range(2), kernel = state.range(4), stride = state.range(5);
    const int64_t padding = kernel / 2;
    return {in, (in + 2 * padding - kernel) / stride + 1, kernel, stride, padding, 1};
  }

  void Report(benchmark::State& state) const {
    const double products = static_cast<double>(y.num_elements()) *
                            static_cast<double>(weight.num_elements() / shape.out_channels);
    state.counters["FLOP/s"] = benchmark::Counter(
        2 * products, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  }

  ThreadPool pool;
  ScopedThreadPool use;
  ConvolutionShape shape;
  Tensor x, weight, bias, y;
};

void Forward(benchmark::State& state) {
  const Convolution c(state);
  for (auto _ : state) ConvolutionForward(c.shape, c.x, c.weight, c.bias, c.y);
  c.Report(state);
}

void BackwardData(benchmark::State& state) {
  const Convolution c(state);
  for (auto _ : state) ConvolutionBackwardData(c.shape, c.y, c.weight, {}, c.x);
  c.Report(state);
}

void BackwardWeight(benchmark::State& state) {
  const Convolution c(state);
  for (auto _ : state) ConvolutionBackwardWeight(c.shape, c.x, c.y, c.weight);
  c.Report(state);
}

void BackwardBias(benchmark::State& state) {
  const Convolution c(state);
  for (auto _ : state) SumTo(c.y, c.bias.View({c.shape.out_channels, 1, 1}));
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t threads : {1, 2}) {
    benchmark->Args({64, 1, 28, 16, 3, 1, threads, 1});
    benchmark->Args({64, 16, 28, 16, 3, 1, threads, 1});
    benchmark->Args({64, 16, 28, 32, 3, 1, threads, 1});
    benchmark->Args({64, 16, 14, 32, 3, 1, threads, 1});
    benchmark->Args({64, 16, 28, 32, 3, 2, threads, 1});
    benchmark->Args({64, 32, 14, 32, 3, 1, threads, 1});
    benchmark->Args({64, 16, 28, 32, 1, 2, threads, 1});
  }
  benchmark->Args({32, 3, 32, 64, 3, 1, 1, 1});
  benchmark->Args({16, 64, 56, 64, 1, 1, 1, 1});
  benchmark->Args({4, 3, 224, 64, 7, 2, 1, 1});
  benchmark->Args({8, 64, 56, 64, 3, 1, 1, 1});
  benchmark->Args({8, 256, 14, 256, 3, 1, 1, 1});
  benchmark->Args({8, 512, 7, 512, 3, 1, 1, 1});
  benchmark->Args({8, 256, 14, 1024, 1, 1, 1, 1});
  benchmark->Args({8, 128, 28, 128, 3, 1, 1, 128});
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK(Forward)->Apply(Shapes);
BENCHMARK(BackwardData)->Apply(Shapes);
BENCHMARK(BackwardWeight)->Apply(Shapes);
BENCHMARK(BackwardBias)->Apply(Shapes);

// {planes, extent, kernel, stride, padding}.
struct Pooling {
  explicit Pooling(const benchmark::State& state)
      : shape{AxisOf(state), AxisOf(state)},
        x(Random({1, state.range(0), shape.height.in, shape.width.in})),
        y(Random({1, state.range(0), shape.height.out, shape.width.out})),
        indices(Tensor::Zeros(y.shape(), {.dtype = MaxPoolIndexType(shape)})) {}

  static PoolingAxis AxisOf(const benchmark::State& state) {
    const int64_t in = state.range(1), kernel = state.range(2), stride = state.range(3);
    const int64_t padding = state.range(4);
    return {in, (in + 2 * padding - kernel) / stride + 1, kernel, stride, padding};
  }

  PoolingShape shape;
  Tensor x, y, indices;
};

void MaxPoolForward(benchmark::State& state) {
  const Pooling p(state);
  for (auto _ : state) MaxPool(p.shape, p.x, p.y, p.indices);
}

void MaxPoolGradient(benchmark::State& state) {
  const Pooling p(state);
  MaxPool(p.shape, p.x, p.y, p.indices);
  for (auto _ : state) MaxPoolBackward(p.shape, p.y, p.indices, p.x, false);
}

void AveragePoolForward(benchmark::State& state) {
  const Pooling p(state);
  for (auto _ : state) AveragePool(p.shape, true, p.x, p.y);
}

void AveragePoolGradient(benchmark::State& state) {
  const Pooling p(state);
  for (auto _ : state) AveragePoolBackward(p.shape, true, p.y, p.x, false);
}

void Planes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({64 * 16, 28, 2, 2, 0});
  benchmark->Args({64 * 32, 14, 2, 2, 0});
  benchmark->Args({8 * 64, 112, 3, 2, 1});
  benchmark->Args({64 * 32, 14, 14, 14, 0});
  benchmark->Unit(benchmark::kMicrosecond);
}

BENCHMARK(MaxPoolForward)->Apply(Planes);
BENCHMARK(MaxPoolGradient)->Apply(Planes);
BENCHMARK(AveragePoolForward)->Apply(Planes);
BENCHMARK(AveragePoolGradient)->Apply(Planes);

}  // namespace
}  // namespace ops::cpu
