// Whole training steps on one thread: how much of a step is not kernels.
//
//   bazel run //ops/optim:step_benchmark
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/kernels.h"
#include "ops/nn/layers.h"
#include "ops/nn/losses.h"
#include "ops/optim/sgd.h"

namespace ops {
namespace {

int64_t PageFaults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Runs `step` for the benchmark, after some steps that let memory settle.
template <class Step>
void RunSteps(benchmark::State& state, Step step) {
  for (int i = 0; i < 5; ++i) step();
  const int64_t faults_before = PageFaults();
  for (auto _ : state) benchmark::DoNotOptimize(step());
  state.counters["page_faults"] = benchmark::Counter(
      static_cast<double>(PageFaults() - faults_before), benchmark::Counter::kAvgIterations);
}

// The model of the tutorial.
void Linear52Step(benchmark::State& state) {
  Generator generator(1);
  nn::Linear model(5, 2, {.generator = &generator});
  optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01});
  const Tensor x = Tensor::Randn({10, 5}, generator), target = Tensor::Randn({10, 2}, generator);
  RunSteps(state, [&] {
    optimizer.ZeroGrad();
    const Tensor loss = nn::MseLoss(model.Forward(x), target);
    Backward(loss);
    optimizer.Step();
    return loss.Item();
  });
}
BENCHMARK(Linear52Step);

// 784-1024-1024-10 on batches of 64.
void MlpStep(benchmark::State& state) {
  Generator generator(1);
  nn::Sequential model;
  model.Add<nn::Linear>(784, 1024, nn::LinearOptions{.generator = &generator});
  model.Add<nn::Relu>();
  model.Add<nn::Linear>(1024, 1024, nn::LinearOptions{.generator = &generator});
  model.Add<nn::Relu>();
  model.Add<nn::Linear>(1024, 10, nn::LinearOptions{.generator = &generator});
  optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01});
  const Tensor x = Tensor::Randn({64, 784}, generator);
  const Tensor target = Tensor::FromVector(std::vector<int64_t>(64, 3), {64});
  RunSteps(state, [&] {
    optimizer.ZeroGrad();
    const Tensor loss = nn::CrossEntropyLoss(model.Forward(x), target);
    Backward(loss);
    optimizer.Step();
    return loss.Item();
  });
}
BENCHMARK(MlpStep)->Unit(benchmark::kMicrosecond);

// The matrix products of MlpStep alone: what it can't be faster than.
void MlpMatrixProducts(benchmark::State& state) {
  struct Layer {
    Tensor x, weight, y, dweight, dx;
  };
  Generator generator(1);
  std::vector<Layer> layers;
  for (auto [in, out] : {std::pair{784, 1024}, {1024, 1024}, {1024, 10}}) {
    layers.push_back({Tensor::Randn({64, in}, generator), Tensor::Randn({out, in}, generator),
                      Tensor::Randn({64, out}, generator), Tensor::Zeros({out, in}),
                      layers.empty() ? Tensor() : Tensor::Zeros({64, in})});
  }
  RunSteps(state, [&] {
    for (const Layer& layer : layers) {
      kernels::MatMul(layer.x, layer.weight, layer.y, {.transpose_b = true});
    }
    for (const Layer& layer : layers) {
      kernels::MatMul(layer.y, layer.x, layer.dweight, {.transpose_a = true});
      if (layer.dx.defined()) kernels::MatMul(layer.y, layer.weight, layer.dx);
    }
    return layers.size();
  });
}
BENCHMARK(MlpMatrixProducts)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ops
