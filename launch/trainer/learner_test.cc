#include "launch/trainer/learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/dataset.h"
#include "ddp/errors.h"
#include "launch/models/data.h"
#include "launch/trainer/evaluation.h"
#include "ops/autograd/grad.h"
#include "ops/optim/clip.h"

namespace launch {
namespace {

using ops::Tensor;

// Learner and evaluation in a world of one.
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
  EXPECT_LT(Evaluate(learner.model(), Task::kRegression, data, 7, *group_)->loss, 1e-6);
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
  const Evaluation evaluation = *Evaluate(model, Task::kRegression, data, 3, *group_);
  EXPECT_DOUBLE_EQ(evaluation.loss, 9);
  EXPECT_FALSE(evaluation.accuracy);
  EXPECT_TRUE(model.training());
}

// Gives some batches, then none until it is resumed, as a file system that hangs.
class StallingData : public ddp::Dataset {
 public:
  StallingData(const ddp::Dataset& data, int num_batches)
      : data_(data), num_batches_(num_batches) {}
  int64_t size() const override { return data_.size(); }
  ddp::Example Get(int64_t index) const override { return data_.Get(index); }
  ddp::Batch GetBatch(std::span<const int64_t> indices) const override {
    if (num_given_++ >= num_batches_) resumed_.wait(false);
    return data_.GetBatch(indices);
  }
  void Resume() {
    resumed_ = true;
    resumed_.notify_all();
  }

 private:
  const ddp::Dataset& data_;
  const int num_batches_;
  mutable std::atomic<int> num_given_ = 0;
  mutable std::atomic<bool> resumed_ = false;
};

TEST_F(LearnerTest, AStopIsHeardWhileDataIsAwaited) {
  TrainOptions options = Options();
  options.accumulate_steps = 2;
  const ddp::TensorDataset data = Data(40);
  StallingData stalling(data, /*num_batches=*/7);
  Learner learner(options, stalling, *group_);
  int64_t num_steps = 0;
  learner.AskToStop();
  EXPECT_THROW(
      {
        for (;; ++num_steps) learner.Step();
      },
      ddp::DataStalledError);
  EXPECT_TRUE(learner.is_between_steps());
  const ddp::Checkpoint state = learner.State();
  EXPECT_EQ(state.step, num_steps);
  EXPECT_EQ(state.samples_in_epoch, num_steps * 2 * 4);
  EXPECT_EQ(state.counters.at("batches"), num_steps * 2);
  stalling.Resume();

  // What was saved goes on to where a run that never stalled comes to.
  Learner resumed(options, data, *group_, &state), undisturbed(options, data, *group_);
  while (resumed.steps() < 5) resumed.Step();
  while (undisturbed.steps() < 5) undisturbed.Step();
  const auto weights = resumed.StateDict(), expected = undisturbed.StateDict();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(weights[i].tensor.ToVector<float>(), expected[i].tensor.ToVector<float>());
  }
}

TEST_F(LearnerTest, AnEvaluationThatIsBrokenOffHasNoResult) {
  const ddp::TensorDataset data = Data(10);
  Learner learner(Options(), data, *group_);
  int num_batches = 0;
  EXPECT_FALSE(Evaluate(learner.model(), Task::kRegression, data, 4, *group_, ops::DType::kFloat32,
                        [&] { return ++num_batches == 2; }));
  EXPECT_EQ(num_batches, 2);
  EXPECT_TRUE(learner.model().training());
}

// Several ranks, as threads.

using Weights = std::vector<std::vector<float>>;

struct Outcome {
  Weights weights;  // as saved
  Weights model;    // the parameters
  int64_t skipped_steps = 0;
};

Weights ValuesOf(const std::vector<ops::NamedTensor>& list) {
  Weights values;
  for (const ops::NamedTensor& entry : list) values.push_back(entry.tensor.ToVector<float>());
  return values;
}

// What the ranks have after all steps, which must be the same to the bit.
Outcome Train(int num_ranks, const TrainOptions& options, const ddp::Dataset& data) {
  std::vector<Outcome> outcomes(num_ranks);
  ddp::RunRanks(num_ranks, [&](ddp::TestRank& rank) {
    const auto group = rank.Join();
    Learner learner(options, data, *group);
    for (int64_t step = 1; step <= learner.total_steps(); ++step) learner.Step();
    learner.AverageRanks();
    outcomes[rank.rank()] = {ValuesOf(learner.StateDict()), ValuesOf(learner.model().Parameters()),
                             learner.skipped_steps()};
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.model, outcomes[0].model);
    EXPECT_EQ(outcome.skipped_steps, outcomes[0].skipped_steps);
  }
  return outcomes[0];
}

void ExpectNear(const Weights& one, const Weights& other, double tolerance) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_THAT(one[i], testing::Pointwise(testing::FloatNear(tolerance), other[i]));
  }
}

class LearnersTest : public LearnerTest {
 protected:
  static TrainOptions Batches(int64_t batch_size, int64_t accumulate_steps = 1) {
    TrainOptions options = Options();
    options.epochs = 3;
    options.batch_size = batch_size;
    options.accumulate_steps = accumulate_steps;
    options.average = "samples";
    options.optimizer = "adam";  // has states, and hides no factor of the gradients it has seen
    return options;
  }
};

// 13 examples, of which the last batches have 1 and 0, or (9 and 10 at once) 2 and 1.
TEST_F(LearnersTest, BySamplesTheSpreadDoesNotMatter) {
  const ddp::TensorDataset data = Data(13);
  const Outcome of_4 = Train(1, Batches(4), data), of_6 = Train(1, Batches(6), data);
  const Outcome of_9 = Train(1, Batches(9), data), of_10 = Train(1, Batches(10), data);
  ExpectNear(Train(2, Batches(2), data).weights, of_4.weights, 1e-6);
  ExpectNear(Train(3, Batches(2), data).weights, of_6.weights, 1e-6);
  ExpectNear(Train(2, Batches(3), data).weights, of_6.weights, 1e-6);
  ExpectNear(Train(3, Batches(3), data).weights, of_9.weights, 1e-6);
  ExpectNear(Train(2, Batches(5), data).weights, of_10.weights, 1e-6);

  // Means of ranks weigh the examples of a small batch more.
  TrainOptions by_ranks = Batches(3);
  by_ranks.average = "ranks";
  EXPECT_NE(Train(2, by_ranks, data).weights, Train(2, Batches(3), data).weights);
}

TEST_F(LearnersTest, BySamplesAccumulatedBatchesCountTheirExamples) {
  // Epochs of 13 in steps of 8 and 5, of 12 and 1.
  const ddp::TensorDataset data = Data(13);
  const auto one_epoch = [](int64_t batch_size, int64_t accumulate_steps) {
    TrainOptions options = Batches(batch_size, accumulate_steps);
    options.epochs = 1;
    return options;
  };
  const Outcome of_8 = Train(1, one_epoch(8, 1), data), of_12 = Train(1, one_epoch(12, 1), data);
  ExpectNear(Train(1, one_epoch(4, 2), data).weights, of_8.weights, 1e-6);
  ExpectNear(Train(2, one_epoch(2, 2), data).weights, of_8.weights, 1e-6);
  ExpectNear(Train(2, one_epoch(2, 3), data).weights, of_12.weights, 1e-6);
  ExpectNear(Train(3, one_epoch(2, 2), data).weights, of_12.weights, 1e-6);
}

TEST_F(LearnersTest, BySamplesRanksMayHaveNoneAtAll) {
  const ddp::TensorDataset data = Data(2);
  ExpectNear(Train(3, Batches(1), data).weights, Train(1, Batches(2), data).weights, 1e-6);
}

TEST_F(LearnersTest, EveryModelTakesABatchWithoutExamples) {
  for (const ModelInfo& info : Models()) {
    SCOPED_TRACE(info.name);
    TrainOptions options = Batches(1);
    options.model = info.name;
    options.hidden = {8};
    options.gpt = {.layers = 1, .width = 16, .heads = 2, .context = 8, .vocab = 32};
    options.epochs = 1;
    options.learning_rate = 0.01;
    options.optimizer = "sgd";
    options.sync_batch_norm = info.has_batch_norm;  // or it would be of fewer examples
    const ddp::Batch batch = OpenData(options.data, info.task, {.context = 8, .vocab = 32})
                                 .train->GetBatch(std::vector<int64_t>{0, 1, 2});
    const ddp::TensorDataset data(batch.inputs, batch.targets);
    TrainOptions alone = options;
    alone.batch_size = 2;
    ExpectNear(Train(2, options, data).weights, Train(1, alone, data).weights, 1e-4);
  }
}

TEST_F(LearnersTest, In16BitsMastersAreSavedAndTheModelIsTheirRounding) {
  const ddp::TensorDataset data = Data(40);
  TrainOptions options = Options();
  options.epochs = 20;
  const Weights in_float32 = Train(2, options, data).weights;
  for (const char* precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    options.precision = precision;
    if (options.precision == "fp16") options.on_nonfinite = "skip";
    const Outcome outcome = Train(2, options, data);
    ExpectNear(outcome.weights, in_float32, 0.02);
    EXPECT_NE(outcome.weights, outcome.model);  // between the numbers that 16 bits have
    for (size_t i = 0; i < outcome.model.size(); ++i) {
      const auto count = static_cast<int64_t>(outcome.model[i].size());
      EXPECT_EQ(Tensor::FromVector(outcome.weights[i], {count})
                    .To(PrecisionOf(options))
                    .ToVector<float>(),
                outcome.model[i]);
    }
  }
}

TEST_F(LearnersTest, Float16SkipsWhatOverflowsOnAllRanksAlike) {
  // Errors of about 100: the first scale of 65536 takes gradients beyond float16.
  Tensor inputs = Tensor::Full({8, 5}, 1), targets = Tensor::Full({8, 2}, 100);
  for (int64_t i = 0; i < 8; i += 2) targets.data<float>()[2 * i] = 0;
  const ddp::TensorDataset data(inputs, targets);
  TrainOptions options = Options();
  options.epochs = 30;
  options.precision = "fp16";
  options.on_nonfinite = "skip";
  const Outcome outcome = Train(2, options, data);
  EXPECT_GT(outcome.skipped_steps, 0);
  EXPECT_LT(outcome.skipped_steps, 20);
  for (const float value : outcome.weights[0]) EXPECT_TRUE(std::isfinite(value));
}

TEST_F(LearnersTest, OverlappedStepsHaveTheSameBits) {
  const ddp::TensorDataset data = Data(40);
  for (const char* precision : {"fp32", "bf16"}) {
    TrainOptions options = Batches(4, 2);
    options.precision = precision;
    options.bucket_bytes = 1;  // a bucket a parameter
    options.schedule = "cosine";
    const Weights whole = Train(2, options, data).weights;
    options.overlap_optimizer = true;
    EXPECT_EQ(Train(2, options, data).weights, whole) << precision;
    EXPECT_EQ(Train(1, options, data).weights.size(), whole.size());
  }
}

TEST_F(LearnersTest, HooksAverageAsThePlainSumWithinTheirResolution) {
  const ddp::TensorDataset data = Data(40);
  TrainOptions options = Options();
  options.epochs = 10;
  const Weights plain = Train(2, options, data).weights;
  for (const char* hook : {"fp16", "bf16", "int8", "topk:0.5", "powersgd:1:2", "local:2:4"}) {
    SCOPED_TRACE(hook);
    options.hook = hook;
    ExpectNear(Train(2, options, data).weights, plain, 0.1);
  }
}

TEST_F(LearnersTest, LocalStepsDriftAndMastersAreAveraged) {
  const ddp::TensorDataset data = Data(40);
  TrainOptions options = Options();
  options.hook = "local:3:0";
  options.precision = "bf16";
  options.max_steps = 2;
  std::vector<Weights> drifted(2);
  ddp::RunRanks(2, [&](ddp::TestRank& rank) {
    const auto group = rank.Join();
    Learner learner(options, data, *group);
    learner.Step();
    learner.Step();
    drifted[rank.rank()] = ValuesOf(learner.StateDict());
  });
  EXPECT_NE(drifted[0], drifted[1]);
  Weights mean = drifted[0];
  for (size_t i = 0; i < mean.size(); ++i) {
    for (size_t k = 0; k < mean[i].size(); ++k) mean[i][k] = (mean[i][k] + drifted[1][i][k]) / 2;
  }
  ExpectNear(Train(2, options, data).weights, mean, 1e-6);
}

TEST_F(LearnersTest, SynchronizedBatchNormSeesTheBatchOfAllRanks) {
  TrainOptions options = Options();
  options.model = "resnet";
  options.max_steps = 1;
  options.batch_size = 2;
  options.sync_batch_norm = true;
  const ddp::Batch batch = OpenData(options.data, Task::kClassification, {})
                               .train->GetBatch(std::vector<int64_t>{0, 1, 2, 3});
  const ddp::TensorDataset data(batch.inputs, batch.targets);
  TrainOptions alone = options;
  alone.batch_size = 4;
  alone.sync_batch_norm = false;
  ExpectNear(Train(2, options, data).weights, Train(1, alone, data).weights, 1e-4);
}

TEST_F(LearnersTest, FlagsOfUnusedParametersChangeNothingWhereAllAreUsed) {
  const ddp::TensorDataset data = Data(40);
  TrainOptions options = Options();
  const Weights plain = Train(2, options, data).weights;
  options.find_unused_parameters = true;
  EXPECT_EQ(Train(2, options, data).weights, plain);
  options.static_graph = true;
  options.find_unused_parameters = false;
  EXPECT_EQ(Train(2, options, data).weights, plain);
}

// One example of 16 has a target that is no number: one step an epoch can't be taken.
TEST_F(LearnersTest, NonFiniteGradientsStopAllRanksOrAreSkippedByAll) {
  const ddp::TensorDataset good = Data(16);
  ddp::Batch batch =
      good.GetBatch(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  batch.targets.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  const ddp::TensorDataset data(batch.inputs, batch.targets);
  TrainOptions options = Options();
  options.epochs = 3;
  options.on_nonfinite = "skip";
  const Outcome skipped = Train(2, options, data);
  EXPECT_EQ(skipped.skipped_steps, 3);
  for (const float value : skipped.weights[0]) EXPECT_TRUE(std::isfinite(value));

  options.on_nonfinite = "stop";
  ddp::RunRanks(2, [&](ddp::TestRank& rank) {
    const auto group = rank.Join();
    Learner learner(options, data, *group);
    const auto run = [&] {
      while (true) learner.Step();
    };
    EXPECT_THAT(run, testing::ThrowsMessage<ddp::NonFiniteGradientError>(
                         testing::ContainsRegex("rank [01]: the gradient of .*weight.*finite")));
  });

  options.on_nonfinite = "ignore";
  ddp::RunRanks(1, [&](ddp::TestRank& rank) {
    const auto group = rank.Join();
    Learner learner(options, data, *group);
    for (int64_t step = 1; step <= learner.total_steps(); ++step) learner.Step();
    EXPECT_TRUE(std::isnan(learner.StateDict()[0].tensor.ToVector<float>().back()));
  });
}

TEST(CountCorrect, LargestLogitWins) {
  const Tensor logits = Tensor::FromVector<float>({1, 3, 2, 9, 0, 0, -3, -2, -1}, {3, 3});
  EXPECT_EQ(CountCorrect(logits, Tensor::FromVector<int64_t>({1, 0, 2}, {3})), 3);
  EXPECT_EQ(CountCorrect(logits, Tensor::FromVector<int64_t>({0, 1, 2}, {3})), 1);
}

}  // namespace
}  // namespace launch
