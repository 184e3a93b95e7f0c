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
  std::vector<NamedTensor> weights;
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
  result.weights = model.StateDict();
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
    largest = std::fmax(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

void ExpectWeightsNear(const std::vector<NamedTensor>& actual,
                       const std::vector<NamedTensor>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].name, expected[i].name);
    EXPECT_LE(LargestDifference(actual[i].tensor, expected[i].tensor), tolerance) << actual[i].name;
  }
}

void ExpectLossesNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step) {
    EXPECT_NEAR(actual[step], expected[step], kLossTolerance) << "at step " << step;
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

TEST_P(Parity, LossesAndWeightsArePyTorchs) {
  const auto& [model, optimizer, world_size] = GetParam();
  const Goldens goldens(model);
  const std::vector<Result> results = TrainOnRanks(goldens, optimizer, world_size);
  const auto losses = goldens.Losses(optimizer, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    ExpectLossesNear(results[rank].losses, losses[rank]);
    ExpectWeightsNear(results[rank].weights, results[0].weights, 0);
  }
  ExpectLossesNear(MeanOverRanks(results), goldens.MeanLosses(optimizer, world_size));
  ExpectWeightsNear(results[0].weights, goldens.FinalWeights(optimizer, world_size),
                    kWeightTolerance);
}

TEST_P(Parity, RanksEqualOneProcessOnTheJoinedBatch) {
  const auto& [model_name, optimizer, world_size] = GetParam();
  const Goldens goldens(model_name);
  const std::vector<Result> ranks = TrainOnRanks(goldens, optimizer, world_size);
  auto model = goldens.MakeModel();
  const Result one = Train(goldens, *model, *model, optimizer, [&, world = world_size](int step) {
    return goldens.JoinedBatch(world, step);
  });
  ExpectLossesNear(MeanOverRanks(ranks), one.losses);
  ExpectWeightsNear(ranks[0].weights, one.weights, kWeightTolerance);
}

INSTANTIATE_TEST_SUITE_P(AllModelsAndOptimizers, Parity,
                         ::testing::Combine(::testing::Values("linear52", "mlp"),
                                            ::testing::Values("sgd", "sgdm", "adam", "adamw"),
                                            ::testing::Values(1, 2, kMaxWorldSize)),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" +
                                  std::to_string(std::get<2>(info.param)) + "_ranks";
                         });

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
              kGradientTolerance * scale)
        << parameters[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FirstGradients, ::testing::Values("linear52", "mlp"));

}  // namespace
}  // namespace parity
