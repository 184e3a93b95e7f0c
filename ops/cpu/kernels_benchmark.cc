// How fast the kernels are: GFLOP/s of products, GB/s of everything that reads and writes memory.
// matmul_table.cc is made from these numbers, for one thread:
//
//   bazel run //ops/cpu:kernels_benchmark -- --benchmark_filter=MatMul
//   DDP_CPU_ISA=avx2 bazel run //ops/cpu:kernels_benchmark
#include <benchmark/benchmark.h>

#include "ops/cpu/activation.h"
#include "ops/cpu/blas.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/loss.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/optimizer.h"
#include "ops/cpu/reduce.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"

namespace ops::cpu {
namespace {

Tensor Random(const Shape& shape) {
  Generator generator(1);
  return Tensor::Rand(shape, generator);
}

void ReportBytes(benchmark::State& state, int64_t bytes_per_iteration) {
  state.SetBytesProcessed(state.iterations() * bytes_per_iteration);
}

// Products: {m, n, k, transpose_a, transpose_b}.

struct Factors {
  explicit Factors(const benchmark::State& state)
      : m(state.range(0)),
        n(state.range(1)),
        k(state.range(2)),
        transpose_a(state.range(3) != 0),
        transpose_b(state.range(4) != 0),
        a(Random(transpose_a ? Shape{k, m} : Shape{m, k})),
        b(Random(transpose_b ? Shape{n, k} : Shape{k, n})),
        c(Random({m, n})) {}

  MatrixProduct<float> product() const {
    return {.m = m,
            .n = n,
            .k = k,
            .transpose_a = transpose_a,
            .transpose_b = transpose_b,
            .a = a.data<float>(),
            .a_stride = a.dim(1),
            .b = b.data<float>(),
            .b_stride = b.dim(1),
            .c = c.data<float>(),
            .c_stride = n,
            .accumulate = false};
  }

  void Report(benchmark::State& state) const {
    const auto flops = 2.0 * static_cast<double>(m * n * k);
    state.counters["FLOP/s"] = benchmark::Counter(
        flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  }

  int64_t m, n, k;
  bool transpose_a, transpose_b;
  Tensor a, b, c;
};

void MatMulOneThread(benchmark::State& state) {
  const Factors factors(state);
  const MatMulOptions options{factors.transpose_a, factors.transpose_b, false};
  for (auto _ : state) MatMul(factors.a, factors.b, factors.c, options);
  factors.Report(state);
}

void MatMulTwoThreads(benchmark::State& state) {
  ThreadPool pool(2);
  const ScopedThreadPool use(&pool);
  MatMulOneThread(state);
}

void MatMulOpenBlas(benchmark::State& state) {
  const Factors factors(state);
  for (auto _ : state) MultiplyWithOpenBlas(factors.product());
  factors.Report(state);
}

void MatMulOneDnn(benchmark::State& state) {
  const Factors factors(state);
  for (auto _ : state) MultiplyWithOneDnn(factors.product());
  factors.Report(state);
}

void SmallShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({10, 2, 5, 0, 1});  // Linear(5, 2), forward and its gradients
  benchmark->Args({10, 5, 2, 0, 0});
  benchmark->Args({2, 5, 10, 1, 0});
  benchmark->Args({8, 32, 20, 0, 1});
  benchmark->Args({16, 16, 16, 0, 0});
  benchmark->Args({32, 32, 8, 1, 0});
  benchmark->Args({20, 20, 20, 0, 1});
}

void LargeShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({64, 1024, 784, 0, 1});  // the MLP
  benchmark->Args({64, 1024, 1024, 0, 1});
  benchmark->Args({64, 1024, 1024, 0, 0});
  benchmark->Args({1024, 1024, 64, 1, 0});
  benchmark->Args({1024, 784, 64, 1, 0});
  benchmark->Args({64, 10, 1024, 0, 1});
  benchmark->Args({64, 1024, 10, 0, 0});
  benchmark->Args({10, 1024, 64, 1, 0});
  benchmark->Args({1, 1024, 1024, 0, 1});
  benchmark->Args({512, 768, 256, 0, 1});  // a transformer
  benchmark->Args({512, 1024, 256, 0, 1});
  benchmark->Args({1024, 256, 512, 1, 0});
  benchmark->Args({512, 256, 1024, 0, 0});
  benchmark->Args({512, 256, 256, 0, 1});
  benchmark->Args({512, 256, 1024, 0, 1});
  benchmark->Args({256, 1024, 512, 1, 0});
  benchmark->Args({64, 128, 1568, 0, 1});  // the last layers of a convolutional network
  benchmark->Args({64, 1568, 128, 0, 0});
  benchmark->Args({128, 1568, 64, 1, 0});
  benchmark->Args({128, 128, 64, 0, 1});
  benchmark->Args({128, 64, 128, 0, 0});
  benchmark->Args({512, 512, 512, 0, 0});
  benchmark->Args({1024, 1024, 1024, 0, 0});
}

BENCHMARK(MatMulOneThread)->Apply(SmallShapes)->Apply(LargeShapes);
BENCHMARK(MatMulTwoThreads)->Apply(LargeShapes)->UseRealTime();
BENCHMARK(MatMulOpenBlas)->Apply(SmallShapes)->Apply(LargeShapes);
BENCHMARK(MatMulOneDnn)->Apply(SmallShapes)->Apply(LargeShapes);

// Optimizer steps: {parameters, tensors that they are in}.

FlatRange RangeOf(benchmark::State& state, const Tensor& parameter, const Tensor& gradient) {
  FlatRange range(DType::kFloat32);
  const int64_t size = state.range(0) / state.range(1);
  // Backwards, so that no two of them become one.
  for (int64_t end = size * state.range(1); end > 0; end -= size) {
    range.Add(parameter.Slice(end - size, end), gradient.Slice(end - size, end), end - size, 7);
  }
  return range;
}

void Sgd(benchmark::State& state) {
  const Shape shape{state.range(0)};
  const Tensor parameter = Random(shape), gradient = Random(shape);
  const FlatRange range = RangeOf(state, parameter, gradient);
  for (auto _ : state) SgdStep(range, {}, {.learning_rate = 1e-3});
  ReportBytes(state, 3 * parameter.num_bytes());
}

void SgdMomentum(benchmark::State& state) {
  const Shape shape{state.range(0)};
  const Tensor parameter = Random(shape), gradient = Random(shape), buffer = Random(shape);
  const FlatRange range = RangeOf(state, parameter, gradient);
  for (auto _ : state) SgdStep(range, buffer, {.learning_rate = 1e-3, .momentum = 0.9});
  ReportBytes(state, 5 * parameter.num_bytes());
}

void AdamW(benchmark::State& state, int num_threads) {
  ThreadPool pool(num_threads);
  const ScopedThreadPool use(&pool);
  const Shape shape{state.range(0)};
  const Tensor parameter = Random(shape), gradient = Random(shape);
  const Tensor first = Random(shape), second = Random(shape);
  const AdamStepOptions options = {
      .learning_rate = 1e-3, .weight_decay = 0.01, .decoupled_weight_decay = true};
  const FlatRange range = RangeOf(state, parameter, gradient);
  for (auto _ : state) AdamStep(range, first, second, options);
  ReportBytes(state, 7 * parameter.num_bytes());
}

void StepSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({12, 1})->Args({100'000, 1})->Args({100'000, 1000});
  benchmark->Args({10'000'000, 1})->Args({10'000'000, 40});
}

BENCHMARK(Sgd)->Apply(StepSizes);
BENCHMARK(SgdMomentum)->Apply(StepSizes);
BENCHMARK_CAPTURE(AdamW, one_thread, 1)->Apply(StepSizes);
BENCHMARK_CAPTURE(AdamW, two_threads, 2)->Apply(StepSizes)->UseRealTime();

// Elementwise operations and sums: {rows, columns}.

Shape ShapeOf(const benchmark::State& state) { return {state.range(0), state.range(1)}; }

void AddSameShape(benchmark::State& state) {
  const Tensor a = Random(ShapeOf(state)), b = Random(ShapeOf(state)), out = Random(ShapeOf(state));
  for (auto _ : state) Binary(BinaryOp::kAdd, a, b, out);
  ReportBytes(state, 3 * a.num_bytes());
}

void AddRow(benchmark::State& state) {
  const Tensor a = Random(ShapeOf(state)), b = Random({state.range(1)}), out = a.Clone();
  for (auto _ : state) Binary(BinaryOp::kAdd, a, b, out);
  ReportBytes(state, 2 * a.num_bytes());
}

void AddBFloat16(benchmark::State& state) {
  const Tensor a = Random(ShapeOf(state)).To(DType::kBFloat16), out = a.Clone();
  for (auto _ : state) Binary(BinaryOp::kAdd, a, a, out);
  ReportBytes(state, 2 * a.num_bytes());
}

void AddFloat16(benchmark::State& state) {
  const Tensor a = Random(ShapeOf(state)).To(DType::kFloat16), out = a.Clone();
  for (auto _ : state) Binary(BinaryOp::kAdd, a, a, out);
  ReportBytes(state, 2 * a.num_bytes());
}

void ReluForward(benchmark::State& state) {
  const Tensor x = Random(ShapeOf(state)), out = x.Clone();
  for (auto _ : state) Activate(Activation::kRelu, x, out);
  ReportBytes(state, 2 * x.num_bytes());
}

void ReluInPlaceBackward(benchmark::State& state) {
  const Tensor y = Random(ShapeOf(state)), dx = y.Clone();
  for (auto _ : state) ActivateBackward(Activation::kRelu, y, dx, dx, false);
  ReportBytes(state, 3 * y.num_bytes());
}

void SumAll(benchmark::State& state) {
  const Tensor x = Random(ShapeOf(state)), out = Tensor::Scalar(0);
  for (auto _ : state) SumTo(x, out);
  ReportBytes(state, x.num_bytes());
}

void SumRows(benchmark::State& state) {
  const Tensor x = Random(ShapeOf(state)), out = Random({state.range(1)});
  for (auto _ : state) SumTo(x, out);
  ReportBytes(state, x.num_bytes());
}

void SumColumns(benchmark::State& state) {
  const Tensor x = Random(ShapeOf(state)), out = Random({state.range(0), 1});
  for (auto _ : state) SumTo(x, out);
  ReportBytes(state, x.num_bytes());
}

void SquaresAndFinite(benchmark::State& state) {
  const Tensor x = Random(ShapeOf(state));
  for (auto _ : state) {
    benchmark::DoNotOptimize(SumOfSquares(x));
    benchmark::DoNotOptimize(AllFinite(x));
  }
  ReportBytes(state, 2 * x.num_bytes());
}

void Mse(benchmark::State& state) {
  const Tensor x = Random(ShapeOf(state)), target = Random(ShapeOf(state)), dx = x.Clone();
  const Tensor loss = Tensor::Scalar(0), dloss = Tensor::Scalar(1);
  for (auto _ : state) {
    ElementLossForward(ElementLoss::kSquared, x, target, loss, 1);
    ElementLossBackward(ElementLoss::kSquared, x, target, dloss, 1, dx, false);
  }
  ReportBytes(state, 5 * x.num_bytes());
}

void CrossEntropy(benchmark::State& state) {
  const Tensor logits = Random(ShapeOf(state)), dlogits = logits.Clone();
  const Tensor targets = Tensor::Zeros({state.range(0)}, {.dtype = DType::kInt64});
  const Tensor loss = Tensor::Scalar(0), dloss = Tensor::Scalar(1);
  const Tensor normalizer = Random({state.range(0)});
  for (auto _ : state) {
    CrossEntropyForward(logits, targets, loss, normalizer, 1);
    CrossEntropyBackward(logits, targets, normalizer, dloss, 1, dlogits, false);
  }
  ReportBytes(state, 3 * logits.num_bytes());
}

void Layers(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({10, 2});
  benchmark->Args({64, 1024});
  benchmark->Args({4096, 1024});
}

BENCHMARK(AddSameShape)->Apply(Layers);
BENCHMARK(AddRow)->Apply(Layers);
BENCHMARK(AddBFloat16)->Apply(Layers);
BENCHMARK(AddFloat16)->Apply(Layers);
BENCHMARK(ReluForward)->Apply(Layers);
BENCHMARK(ReluInPlaceBackward)->Apply(Layers);
BENCHMARK(SumAll)->Apply(Layers);
BENCHMARK(SumRows)->Apply(Layers);
BENCHMARK(SumColumns)->Apply(Layers);
BENCHMARK(SquaresAndFinite)->Apply(Layers);
BENCHMARK(Mse)->Apply(Layers);
BENCHMARK(CrossEntropy)->Args({64, 10})->Args({512, 512});

// The hand-over to a worker and back: {threads}.

void HandOver(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.Run(2, [](int64_t chunk) { benchmark::DoNotOptimize(chunk); });
}

BENCHMARK(HandOver)->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

}  // namespace
}  // namespace ops::cpu
