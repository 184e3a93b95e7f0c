#include "launch/trainer/learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ddp/data/dataset.h"
#include "launch/trainer/evaluation.h"
#include "ops/autograd/grad.h"
#include "ops/optim/clip.h"

namespace launch {
namespace {

using ops::Tensor;

// Learner and evaluation in a world of one; several ranks are for tests of whole processes.
class LearnerTest : public testing::Test {
 protected:
  // Targets are 2 x0 and -x1: a linear model can learn them exactly.
  static ddp::TensorDataset Data(int64_t size) {
    ops::Generator generator(1);
    Tensor inputs = Tensor::Randn({size, 5}, generator);
    std::vector<float> targets;
    for (int64_t i = 0; i < size; ++i) {
      targets.push_back(2 * inputs.data<float>()[5 * i]);
      targets.push_back(-inputs.data<float>()[5 * i + 1]);
    }
    return ddp::TensorDataset(inputs, Tensor::FromVector<float>(targets, {size, 2}));
  }

  static TrainOptions Options() {
    TrainOptions options;
    options.model = "linear";
    options.data = {"synthetic", ""};
    options.batch_size = 4;
    options.learning_rate = 0.05;
    return options;
  }

  const std::unique_ptr<ddp::ProcessGroup> group_ = ddp::InitProcessGroup({});
};

TEST_F(LearnerTest, LearnsALinearMap) {
  TrainOptions options = Options();
  options.epochs = 50;
  const ddp::TensorDataset data = Data(40);
  Learner learner(options, data, *group_);
  EXPECT_EQ(learner.total_steps(), 500);
  EXPECT_EQ(learner.num_parameters(), 12);
  double loss = 0;
  for (int64_t step = 1; step <= learner.total_steps(); ++step) loss = learner.Step();
  EXPECT_LT(loss, 1e-6);
  EXPECT_EQ(learner.samples(), 50 * 40);
  EXPECT_LT(Evaluate(learner.model(), Task::kRegression, data, 7, *group_).loss, 1e-6);
}

TEST_F(LearnerTest, LimitsOfARun) {
  const ddp::TensorDataset data = Data(10);  // batches of 4, 4 and 2
  const auto steps = [&](int64_t epochs, int64_t max_steps, int64_t accumulate_steps) {
    TrainOptions options = Options();
    options.epochs = epochs;
    options.max_steps = max_steps;
    options.accumulate_steps = accumulate_steps;
    return Learner(options, data, *group_).total_steps();
  };
  EXPECT_EQ(steps(2, 0, 1), 6);
  EXPECT_EQ(steps(2, 4, 1), 4);
  EXPECT_EQ(steps(2, 100, 1), 6);
  EXPECT_EQ(steps(0, 100, 1), 100);
  EXPECT_EQ(steps(2, 0, 4), 2);
  EXPECT_EQ(steps(1, 0, 8), 1);
  EXPECT_EQ(steps(std::numeric_limits<int64_t>::max(), 7, 1), 7);
}

TEST_F(LearnerTest, TheLastStepTakesWhatIsLeft) {
  TrainOptions options = Options();
  options.accumulate_steps = 2;
  const ddp::TensorDataset data = Data(10);
  Learner learner(options, data, *group_);
  learner.Step();
  EXPECT_EQ(learner.samples(), 8);
  learner.Step();
  EXPECT_EQ(learner.samples(), 10);
}

TEST_F(LearnerTest, GradientNormIsOfAllGradients) {
  const ddp::TensorDataset data = Data(10);
  Learner learner(Options(), data, *group_);
  learner.Step(/*with_gradient_norm=*/true);
  double sum = 0;
  for (const ops::NamedTensor& parameter : learner.model().Parameters()) {
    for (const float value : ops::Grad(parameter.tensor).ToVector<float>()) sum += value * value;
  }
  EXPECT_NEAR(learner.gradient_norm(), std::sqrt(sum), 1e-6);
  EXPECT_GT(sum, 0);
}

TEST_F(LearnerTest, TheNormIsThatBeforeClipping) {
  const ddp::TensorDataset data = Data(10);
  Learner free(Options(), data, *group_);
  free.Step(/*with_gradient_norm=*/true);
  TrainOptions options = Options();
  options.clip_norm = 0.01;
  Learner clipped(options, data, *group_);
  clipped.Step(/*with_gradient_norm=*/true);
  EXPECT_GT(clipped.gradient_norm(), 10 * options.clip_norm);
  EXPECT_EQ(clipped.gradient_norm(), free.gradient_norm());
  EXPECT_NEAR(ops::optim::GradNorm(clipped.model().Parameters()), options.clip_norm, 1e-6);
}

TEST_F(LearnerTest, ABatchLargerThanTheDataNamesBothNumbers) {
  TrainOptions options = Options();
  options.batch_size = 11;
  const ddp::TensorDataset data = Data(10);
  EXPECT_THAT([&] { Learner(options, data, *group_); },
              testing::ThrowsMessage<std::invalid_argument>(
                  "--batch_size=11 is larger than the data: synthetic has 10 examples, 10 for each "
                  "of 1 rank"));
}

TEST_F(LearnerTest, EvaluationWeighsExamplesNotBatches) {
  // The last batch has one example only, and all of the loss.
  class Zero : public ops::nn::Module {
   public:
    Tensor Forward(const Tensor& x) override { return Tensor::Zeros({x.dim(0), 1}); }
  };
  Zero model;
  const ddp::TensorDataset data(Tensor::Zeros({4, 1}),
                                Tensor::FromVector<float>({0, 0, 0, 6}, {4, 1}));
  const Evaluation evaluation = Evaluate(model, Task::kRegression, data, 3, *group_);
  EXPECT_DOUBLE_EQ(evaluation.loss, 9);
  EXPECT_FALSE(evaluation.accuracy);
  EXPECT_TRUE(model.training());
}

TEST(CountCorrect, LargestLogitWins) {
  const Tensor logits = Tensor::FromVector<float>({1, 3, 2, 9, 0, 0, -3, -2, -1}, {3, 3});
  EXPECT_EQ(CountCorrect(logits, Tensor::FromVector<int64_t>({1, 0, 2}, {3})), 3);
  EXPECT_EQ(CountCorrect(logits, Tensor::FromVector<int64_t>({0, 1, 2}, {3})), 1);
}

}  // namespace
}  // namespace launch
