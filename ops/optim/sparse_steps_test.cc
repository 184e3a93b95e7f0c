// What optimizers, clipping and 16-bit training make of sparse gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/cpu/thread_pool.h"
#include "ops/optim/adam.h"
#include "ops/optim/clip.h"
#include "ops/optim/lion.h"
#include "ops/optim/loss_scaler.h"
#include "ops/optim/master_weights.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace ops::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Parameters = std::vector<NamedTensor>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Parameters)>;

Tensor Ids(const std::vector<int64_t>& ids) {
  return Tensor::FromVector(ids, {static_cast<int64_t>(ids.size())});
}

void LookUp(const Tensor& table, const std::vector<int64_t>& ids, const std::vector<double>& dy,
            bool sparse = true) {
  const Tensor y = Embedding(Ids(ids), table, /*padding_id=*/-1, sparse);
  Backward(y, Tensor::FromVector(dy, y.shape()).To(table.dtype()));
}

Tensor Table() {
  return SetRequiresGrad(Tensor::FromVector<double>({1, -2, 3, 0.5, -1, 2}, {3, 2}));
}

// The table after three steps with it; two rows are named twice.
std::vector<double> Train(const MakeOptimizer& make, bool sparse = true) {
  const Tensor table = Table();
  const auto optimizer = make({{"table", table}});
  const auto step = [&](const std::vector<int64_t>& ids, const std::vector<double>& dy) {
    optimizer->ZeroGrad();
    LookUp(table, ids, dy, sparse);
    optimizer->Step();
    EXPECT_EQ(SparseGrad(table).defined(), sparse);
  };
  step({0, 2, 0}, {0.5, -1, 2, 1, 0.25, 0.5});
  step({2}, {1, -3});
  step({1, 0}, {-1, 0.5, 2, 2});
  return table.ToVector<double>();
}

template <class T, class Options>
MakeOptimizer Make(const Options& options) {
  return [options](Parameters parameters) { return std::make_unique<T>(parameters, options); };
}

void ExpectNear(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-14) << i;
}

// The numbers are those of PyTorch 1.13's SGD.
TEST(SparseStepsTest, SgdIsPyTorchs) {
  ExpectNear(Train(Make<Sgd>(SgdOptions{.learning_rate = 0.1})),
             {0.725, -2.15, 3.1, 0.45, -1.3, 2.2});
  ExpectNear(Train(Make<Sgd>(SgdOptions{.learning_rate = 0.1, .momentum = 0.9})),
             {0.59675, -2.0645, 3.1, 0.45, -1.732, 2.299});
}

TEST(SparseStepsTest, SgdsSparseStepsAreItsDenseOnes) {
  for (const SgdOptions& options :
       {SgdOptions{.learning_rate = 0.1}, SgdOptions{.learning_rate = 0.1, .momentum = 0.9},
        SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}}) {
    EXPECT_EQ(Train(Make<Sgd>(options)), Train(Make<Sgd>(options), /*sparse=*/false));
  }
}

// The numbers are those of PyTorch 1.13's SparseAdam, where epsilon is too small to matter.
TEST(SparseStepsTest, AdamIsPyTorchsSparseAdam) {
  const std::vector<double> expected = {0.8199938680887786,  -1.9480312799451465,
                                        3.0638813599398516,  0.43611864006014844,
                                        -1.1932179638811404, 1.9494189833297082};
  const AdamOptions options = {.learning_rate = 0.1, .epsilon = 1e-30};
  ExpectNear(Train(Make<Adam>(options)), expected);
  ExpectNear(Train(Make<AdamW>(options)), expected);
}

// Adam's formula (adam.h) on what was touched, in float64.
TEST(SparseStepsTest, AdamsEpsilonStandsWhereItDoesForDenseGradients) {
  const AdamOptions options = {.learning_rate = 0.1, .epsilon = 0.01};
  double m = 0, v = 0, p = -1;
  const auto step = [&](double g, int t) {
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= 0.1 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 0.01);
  };
  step(2, 1);
  step(1, 2);
  EXPECT_NEAR(Train(Make<Adam>(options))[4], p, 1e-14);
}

TEST(SparseStepsTest, RowsThatWereNotTouchedKeepTheirMoments) {
  const Tensor table = Table();
  Adam optimizer({{"table", table}}, {.learning_rate = 0.1});
  LookUp(table, {0, 1, 2}, {1, 1, 1, 1, 1, 1});
  optimizer.Step();
  optimizer.ZeroGrad();
  const auto row = [&](const Tensor& of) { return of.Slice(1, 2).ToVector<double>(); };
  const auto state = optimizer.StateDict();
  const auto before = row(table), moment = row(state[0].tensor), square = row(state[1].tensor);
  LookUp(table, {2, 0}, {5, 6, 7, 8});
  optimizer.Step();
  EXPECT_EQ(row(table), before);
  EXPECT_EQ(row(state[0].tensor), moment);
  EXPECT_EQ(row(state[1].tensor), square);
  EXPECT_EQ(state[2].tensor.Item(), 2);
}

TEST(SparseStepsTest, AGradientWithoutRowsIsAStepThatChangesNothing) {
  const Tensor table = Table();
  Adam optimizer({{"table", table}}, {.learning_rate = 0.1});
  LookUp(table, {}, {});
  optimizer.Step();
  EXPECT_EQ(table.ToVector<double>(), Table().ToVector<double>());
  EXPECT_EQ(optimizer.StateDict().back().tensor.Item(), 1);
}

TEST(SparseStepsTest, DoNotDependOnThreads) {
  const auto train = [] {
    Generator generator(1);
    const Tensor table = SetRequiresGrad(Tensor::Randn({500, 129}, generator));
    const Tensor dense = SetRequiresGrad(Tensor::Randn({40'000}, generator));
    Adam optimizer({{"dense", dense}, {"table", table}});
    for (int step = 0; step < 3; ++step) {
      std::vector<int64_t> ids(700);
      for (int64_t& id : ids) id = static_cast<int64_t>(generator.Below(500));
      optimizer.ZeroGrad();
      SetGrad(dense, Tensor::Randn({40'000}, generator));
      Backward(Embedding(Ids(ids), table, -1, /*sparse=*/true),
               Tensor::Randn({700, 129}, generator));
      optimizer.Step();
    }
    return table.ToVector<float>();
  };
  const auto alone = train();
  cpu::ThreadPool pool(2);
  const cpu::ScopedThreadPool use(&pool);
  EXPECT_EQ(train(), alone);
}

// The second of two groups is refused, and the first hasn't moved.
TEST(SparseStepsTest, WhatTouchesEveryRowIsRefusedAndChangesNothing) {
  const auto refused = [](auto make, const char* why) {
    const Tensor other = SetRequiresGrad(Tensor::Full({1}, 5)), table = Table();
    const auto optimizer = make({{.parameters = {{"other", other}}, .weight_decay = 0},
                                 {.parameters = {{"tokens.weight", table}}}});
    SetGrad(other, Tensor::Full({1}, 1));
    LookUp(table, {1}, {1, 1});
    EXPECT_THAT([&] { optimizer->Step(); },
                ThrowsMessage<std::invalid_argument>(
                    HasSubstr(std::string("the gradient of parameter 'tokens.weight' is sparse, "
                                          "which doesn't go with ") +
                              why)));
    EXPECT_EQ(other.Item(), 5);
    EXPECT_TRUE(optimizer->StateDict().empty());
  };
  using Groups = std::vector<ParameterGroup>;
  refused([](Groups groups) { return std::make_unique<AdamW>(groups); }, "weight decay");
  refused(
      [](Groups groups) {
        return std::make_unique<Adam>(groups, AdamOptions{.weight_decay = 0.1});
      },
      "weight decay");
  refused(
      [](Groups groups) { return std::make_unique<Sgd>(groups, SgdOptions{.weight_decay = 0.1}); },
      "weight decay");
  refused([](Groups groups) { return std::make_unique<Lion>(groups); }, "this optimizer");
}

TEST(SparseGradientsTest, NormsAndBoundsAreThoseOfTheSums) {
  const Tensor table = Table();
  LookUp(table, {2, 0, 2}, {1, 2, 0, 6, 2, 0});  // rows [0, 6] and [3, 2]
  const Parameters parameters = {{"table", table}};
  EXPECT_DOUBLE_EQ(GradNorm(parameters), 7);
  EXPECT_DOUBLE_EQ(ClipGradNorm(parameters, 3.5), 7);
  EXPECT_NEAR(SparseGrad(table).rows.ToVector<double>()[1], 3, 1e-6);
  ClipGradValue(parameters, 1.25);
  EXPECT_THAT(SparseGrad(table).ids.ToVector<int64_t>(), ElementsAre(0, 2));
  EXPECT_EQ(SparseGrad(table).rows.ToVector<double>()[1], 1.25);
  EXPECT_NEAR(SparseGrad(table).rows.ToVector<double>()[3], 1, 1e-6);
}

TEST(SparseGradientsTest, TheLossScalerUnscalesRows) {
  const Tensor table = Table();
  LossScaler scaler({.initial_scale = 4});
  LookUp(table, {1, 1}, {4, 8, 4, 8});
  EXPECT_TRUE(scaler.Unscale({{"table", table}}));
  EXPECT_THAT(SparseGrad(table).rows.ToVector<double>(), ElementsAre(2, 4));
  LookUp(table, {0}, {std::numeric_limits<double>::infinity(), 0});
  EXPECT_FALSE(scaler.Unscale({{"table", table}}));
}

TEST(SparseGradientsTest, MastersGetSparseOnesToo) {
  const Tensor table = SetRequiresGrad(Table().To(DType::kBFloat16));
  MasterWeights masters({{"table", table}});
  const Tensor master = masters.parameters()[0].tensor;
  LookUp(table, {2, 2}, {1, 2, 0.001, 0});
  masters.WidenGradients();
  EXPECT_EQ(SparseGrad(master).rows.dtype(), DType::kFloat32);
  EXPECT_THAT(CoalesceGrad(master).ids.ToVector<int64_t>(), ElementsAre(2));
  EXPECT_GT(SparseGrad(master).rows.ToVector<float>()[0], 1);  // which bfloat16 would round away
  Sgd optimizer(masters.parameters(), {.learning_rate = 1});
  optimizer.Step();
  masters.RoundIntoModel();
  EXPECT_THAT(table.ToVector<float>(), ElementsAre(1, -2, 3, 0.5, -2, 0));
  ClearGrad(table);
  masters.WidenGradients();
  EXPECT_FALSE(SparseGrad(master).defined());
}

}  // namespace
}  // namespace ops::optim
