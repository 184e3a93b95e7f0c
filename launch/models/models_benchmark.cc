// How long a training step of each model takes on one rank, by number of threads:
//
//   bazel run //launch/models:models_benchmark -- --benchmark_filter=Gpt
#include <benchmark/benchmark.h>

#include <vector>

#include "launch/models/convnet.h"
#include "launch/models/gpt.h"
#include "launch/models/resnet.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/cpu/thread_pool.h"
#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace launch {
namespace {

using ops::Shape;
using ops::Tensor;

Tensor RandomIds(const Shape& shape, uint64_t bound, ops::Generator& generator) {
  std::vector<int64_t> ids(shape.num_elements());
  for (int64_t& id : ids) id = static_cast<int64_t>(generator.Below(bound));
  return Tensor::FromVector(ids, shape);
}

void TimeSteps(benchmark::State& state, ops::nn::Module& model, ops::optim::Optimizer& optimizer,
               const Tensor& inputs, const Tensor& targets) {
  ops::cpu::ThreadPool pool(static_cast<int>(state.range(0)));
  const ops::cpu::ScopedThreadPool use(&pool);
  for (auto _ : state) {
    optimizer.ZeroGrad();
    const Tensor loss = ops::CrossEntropyLoss(model.Forward(inputs), targets);
    ops::Backward(loss);
    optimizer.Step();
    benchmark::DoNotOptimize(loss.Item());
  }
}

template <class Model>
void Images(benchmark::State& state) {
  ops::Generator generator(0);
  Model model({}, generator);
  ops::optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01});
  TimeSteps(state, model, optimizer, Tensor::Randn({64, 1, 28, 28}, generator),
            RandomIds({64}, 10, generator));
}
BENCHMARK(Images<ConvNet>)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Images<ResNet>)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void GptStep(benchmark::State& state) {
  ops::Generator generator(0);
  const GptOptions options;
  Gpt model(options, generator);
  ops::optim::AdamW optimizer(model.Parameters(), {.learning_rate = 3e-4});
  const Shape shape = {4, options.context};
  TimeSteps(state, model, optimizer, RandomIds(shape, options.vocab, generator),
            RandomIds(shape, options.vocab, generator));
}
BENCHMARK(GptStep)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace launch
