// A training step after warm-up makes no heap allocation of ours.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/models/catalog.h"
#include "launch/models/models.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/cpu/thread_pool.h"
#include "ops/optim/adam.h"
#include "ops/optim/clip.h"
#include "ops/optim/sgd.h"
#include "tests/allocations/heap_calls.h"

namespace allocations {
namespace {

using ops::Tensor;

// With several threads, timing decides how much memory is in use at once, and the step that needs
// most may come late; so the first of a few rounds without a call is enough there.
void ExpectNoneOfOurs(int num_threads, const std::function<void()>& step) {
  for (int i = 0; i < 5; ++i) step();
  for (int rounds_left = num_threads == 1 ? 1 : 20; rounds_left > 0; --rounds_left) {
    const HeapCalls calls;
    step();
    step();
    if (calls.ours() == 0) {
      fmt::print("inside libraries, two steps: {}\n", calls.Describe());
      return;
    }
    if (rounds_left == 1) ADD_FAILURE() << calls.Describe();
  }
}

Tensor Classes(const ops::Shape& shape) {
  return Tensor::Zeros(shape, {.dtype = ops::DType::kInt64});
}

class Allocations : public testing::TestWithParam<int> {
 protected:
  ops::cpu::ThreadPool pool_{GetParam()};
  ops::cpu::ScopedThreadPool use_pool_{&pool_};
};

TEST_P(Allocations, HeapCallsAreSeen) {
  const HeapCalls calls;
  const auto number = std::make_unique<int>(1);
  const std::unique_ptr<void, decltype(&std::free)> block(std::malloc(10), &std::free);
  EXPECT_EQ(calls.ours(), 2);
}

TEST_P(Allocations, Mlp) {
  const auto model =
      launch::MakeModel(launch::FindModel("mlp"), {.hidden = {256, 256}}, /*seed=*/0);
  ops::optim::Sgd optimizer(model->Parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  const Tensor inputs = Tensor::Zeros({32, 784});
  const Tensor targets = Classes({32});
  ExpectNoneOfOurs(GetParam(), [&] {
    optimizer.ZeroGrad();
    Backward(CrossEntropyLoss(model->Forward(inputs), targets));
    optimizer.Step();
  });
}

TEST_P(Allocations, ImageModels) {
  for (const char* name : {"convnet", "resnet"}) {
    SCOPED_TRACE(name);
    const auto model = launch::MakeModel(launch::FindModel(name), {}, /*seed=*/0);
    ops::optim::Adam optimizer(model->Parameters());
    const Tensor inputs = Tensor::Zeros({8, 1, 28, 28}), targets = Classes({8});
    ExpectNoneOfOurs(GetParam(), [&] {
      optimizer.ZeroGrad();
      Backward(CrossEntropyLoss(model->Forward(inputs), targets));
      optimizer.Step();
    });
  }
}

TEST_P(Allocations, Gpt) {
  const launch::ModelOptions options = {
      .gpt = {.layers = 2, .width = 64, .heads = 4, .context = 64, .vocab = 256}};
  const auto model = launch::MakeModel(launch::FindModel("gpt"), options, /*seed=*/0);
  const std::vector<ops::NamedTensor> parameters = model->Parameters();
  ops::optim::AdamW optimizer(parameters);
  const Tensor inputs = Classes({4, 64}), targets = Classes({4, 64});
  ExpectNoneOfOurs(GetParam(), [&] {
    optimizer.ZeroGrad();
    Backward(CrossEntropyLoss(model->Forward(inputs), targets));
    ops::optim::ClipGradNorm(parameters, 1);
    optimizer.Step();
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Allocations, testing::Values(1, 2));

}  // namespace
}  // namespace allocations
