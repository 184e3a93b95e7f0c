// Trainings of ours against PyTorch's, step by step: the same weights, batches and optimizers on 1,
// 2 and 4 ranks must give PyTorch's losses and weights.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ops/autograd/grad.h"
#include "tests/parity/goldens.h"

namespace parity {
namespace {

using ops::NamedTensor;
using ops::Tensor;

struct Result {
  std::vector<double> losses;
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> state;  // buffers too, which each rank has its own of
};

// Trains `model`, whose forward pass is `forward` (the model itself, or DDP around it).
Result Train(const Goldens& goldens, ops::nn::Module& model, ops::nn::Module& forward,
             const std::string& optimizer_name,
             const std::function<ddp::Batch(int step)>& batch_of_step) {
  auto optimizer = goldens.MakeOptimizer(optimizer_name, model);
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    const ddp::Batch batch = batch_of_step(step);
    optimizer->ZeroGrad();
    Tensor loss = goldens.Loss(forward.Forward(batch.inputs), batch.targets);
    Backward(loss);
    optimizer->Step();
    result.losses.push_back(loss.Item());
  }
  result.parameters = model.Parameters();
  result.state = model.StateDict();
  return result;
}

std::vector<Result> TrainOnRanks(const Goldens& goldens, const std::string& optimizer,
                                 int world_size) {
  std::vector<Result> results(world_size);
  ddp::RunRanks(world_size, [&](ddp::TestRank& rank) {
    auto group = rank.Join();
    auto model = goldens.MakeModel();
    ddp::DistributedDataParallel replicated(*model, *group);
    results[rank.rank()] = Train(goldens, *model, replicated, optimizer,
                                 [&](int step) { return goldens.RankBatch(rank.rank(), step); });
  });
  return results;
}

double LargestDifference(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.ToVector<double>(), right = b.ToVector<double>();
  EXPECT_EQ(a.Describe(), b.Describe());
  double largest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    const double difference = std::abs(left[i] - right[i]);
    largest = std::isnan(difference) ? HUGE_VAL : std::fmax(largest, difference);
  }
  return largest;
}

// Attention's key bias adds the same to all scores of a row, which softmax ignores: its true
// gradient is 0, and Adam divides the noise that is left by its own size. No two programs agree on
// what becomes of it, so it is taken out of both sides: the middle third of a "qkv.bias".
Tensor WithoutKeys(const NamedTensor& weight) {
  if (!weight.name.ends_with("qkv.bias")) return weight.tensor;
  Tensor kept = weight.tensor.Clone();
  const int64_t width = kept.dim(0) / 3;
  kept.Slice(width, 2 * width).Fill(0);
  return kept;
}

std::vector<NamedTensor> WithoutWanderers(std::vector<NamedTensor> weights,
                                          const std::string& optimizer) {
  if (!optimizer.starts_with("adam")) return weights;
  for (NamedTensor& weight : weights) weight.tensor = WithoutKeys(weight);
  return weights;
}

void ExpectNear(const std::vector<NamedTensor>& actual, const std::vector<NamedTensor>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].name, expected[i].name);
    EXPECT_LE(LargestDifference(actual[i].tensor, expected[i].tensor), tolerance) << actual[i].name;
  }
}

void ExpectLossesNear(const std::vector<double>& actual, const std::vector<double>& expected,
                      double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step) {
    EXPECT_NEAR(actual[step], expected[step], tolerance) << "at step " << step;
  }
}

std::vector<double> MeanOverRanks(const std::vector<Result>& results) {
  std::vector<double> means(kSteps);
  for (const Result& result : results) {
    for (int step = 0; step < kSteps; ++step) means[step] += result.losses[step] / results.size();
  }
  return means;
}

using Case = std::tuple<std::string /*model*/, std::string /*optimizer*/, int /*world size*/>;

class Parity : public ::testing::TestWithParam<Case> {};

TEST_P(Parity, LossesAndFinalStateArePyTorchs) {
  const auto& [model, optimizer, world_size] = GetParam();
  const Goldens goldens(model);
  const Tolerances tolerances = goldens.tolerances();
  const std::vector<Result> results = TrainOnRanks(goldens, optimizer, world_size);
  const auto losses = goldens.Losses(optimizer, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    ExpectLossesNear(results[rank].losses, losses[rank], tolerances.loss);
    ExpectNear(results[rank].parameters, results[0].parameters, 0);
  }
  ExpectLossesNear(MeanOverRanks(results), goldens.MeanLosses(optimizer, world_size),
                   tolerances.loss);
  ExpectNear(WithoutWanderers(results[0].state, optimizer),
             WithoutWanderers(goldens.FinalState(optimizer, world_size), optimizer),
             tolerances.state);
}

const auto kOptimizers = ::testing::Values("sgd", "sgdm", "adam", "adamw");
const auto kWorldSizes = ::testing::Values(1, 2, kMaxWorldSize);

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const auto& [model, optimizer, world_size] = info.param;
  return model + "_" + optimizer + "_" + std::to_string(world_size) + "_ranks";
}

INSTANTIATE_TEST_SUITE_P(Trainings, Parity,
                         ::testing::Combine(::testing::Values("linear52", "mlp", "gpt", "convnet",
                                                              "resnet"),
                                            kOptimizers, kWorldSizes),
                         NameOf);

class OneProcess : public Parity {};

TEST_P(OneProcess, OnTheJoinedBatchEqualsRanks) {
  const auto& [model_name, optimizer, world_size] = GetParam();
  const Goldens goldens(model_name);
  const std::vector<Result> ranks = TrainOnRanks(goldens, optimizer, world_size);
  auto model = goldens.MakeModel();
  const Result one = Train(goldens, *model, *model, optimizer, [&, world = world_size](int step) {
    return goldens.JoinedBatch(world, step);
  });
  ExpectLossesNear(MeanOverRanks(ranks), one.losses, goldens.tolerances().loss);
  ExpectNear(WithoutWanderers(ranks[0].parameters, optimizer),
             WithoutWanderers(one.parameters, optimizer), goldens.tolerances().one_process);
}

// Not resnet: each rank's batch norm sees the statistics of its own part of the batch.
INSTANTIATE_TEST_SUITE_P(Trainings, OneProcess,
                         ::testing::Combine(::testing::Values("linear52", "mlp", "gpt", "convnet"),
                                            kOptimizers, kWorldSizes),
                         NameOf);

class FirstGradients : public ::testing::TestWithParam<std::string> {};

TEST_P(FirstGradients, ArePyTorchs) {
  const Goldens goldens(GetParam());
  auto model = goldens.MakeModel();
  const ddp::Batch batch = goldens.RankBatch(0, 0);
  Backward(goldens.Loss(model->Forward(batch.inputs), batch.targets));
  const auto expected = goldens.FirstGradients();
  const auto parameters = model->Parameters();
  ASSERT_EQ(parameters.size(), expected.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_EQ(parameters[i].name, expected[i].name);
    const double scale =
        LargestDifference(expected[i].tensor, Tensor::Zeros(expected[i].tensor.shape()));
    EXPECT_LE(LargestDifference(Grad(parameters[i].tensor), expected[i].tensor),
              goldens.tolerances().gradient * scale)
        << parameters[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FirstGradients,
                         ::testing::Values("linear52", "mlp", "gpt", "convnet", "resnet"));

}  // namespace
}  // namespace parity
