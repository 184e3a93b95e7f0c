#include "ops/nn/normalization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/checkpoint.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"

namespace ops::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

std::vector<std::string> StateOf(const Module& module) {
  std::vector<std::string> state;
  for (const auto& [name, tensor] : module.StateDict()) {
    state.push_back(name + " " + tensor.Describe());
  }
  return state;
}

Tensor Random(const Shape& shape) {
  Generator generator(1);
  return Tensor::Randn(shape, generator);
}

TEST(NormalizationTest, ParametersAndBuffersArePyTorchs) {
  EXPECT_THAT(StateOf(LayerNorm(8)), ElementsAre("weight float32[8]", "bias float32[8]"));
  EXPECT_THAT(StateOf(LayerNorm(Shape{2, 3}, {.bias = false, .dtype = DType::kFloat64})),
              ElementsAre("weight float64[2, 3]"));
  EXPECT_THAT(StateOf(LayerNorm(8, {.affine = false})), IsEmpty());
  EXPECT_THAT(StateOf(RmsNorm(8)), ElementsAre("weight float32[8]"));
  EXPECT_THAT(StateOf(GroupNorm(2, 8)), ElementsAre("weight float32[8]", "bias float32[8]"));
  EXPECT_THAT(StateOf(BatchNorm2d(8)),
              ElementsAre("weight float32[8]", "bias float32[8]", "running_mean float32[8]",
                          "running_var float32[8]", "num_batches_tracked int64[]"));
  EXPECT_THAT(StateOf(BatchNorm1d(8, {.affine = false, .dtype = DType::kBFloat16})),
              ElementsAre("running_mean float32[8]", "running_var float32[8]",
                          "num_batches_tracked int64[]"));
  EXPECT_THAT(StateOf(BatchNorm1d(8, {.affine = false, .track_running_stats = false})), IsEmpty());
}

TEST(NormalizationTest, LayersComputeTheirFunctions) {
  const Tensor x = Random({4, 6, 5});
  EXPECT_EQ(LayerNorm(5).Forward(x).ToVector<float>(),
            ops::LayerNorm(x, 1, {}, {}).ToVector<float>());
  EXPECT_EQ(LayerNorm(Shape{6, 5}, {.epsilon = 1}).Forward(x).ToVector<float>(),
            ops::LayerNorm(x, 2, {}, {}, 1).ToVector<float>());
  EXPECT_EQ(RmsNorm(5).Forward(x).ToVector<float>(), ops::RmsNorm(x, {}).ToVector<float>());
  EXPECT_EQ(GroupNorm(3, 6).Forward(x).ToVector<float>(),
            ops::GroupNorm(x, 3, {}, {}).ToVector<float>());
  EXPECT_EQ(BatchNorm1d(6).Forward(x).ToVector<float>(),
            ops::BatchNorm(x, {}, {}, {}, {}).ToVector<float>());
  EXPECT_EQ(BatchNorm1d(6, {.relu = true}).Forward(x).ToVector<float>(),
            ops::Relu(ops::BatchNorm(x, {}, {}, {}, {})).ToVector<float>());
}

TEST(BatchNormTest, TrainingMovesTheRunningStatisticsAndEvaluationTakesThem) {
  BatchNorm1d norm(1, {.epsilon = 3, .momentum = 0.5});
  const Tensor x = Tensor::FromVector<float>({1, 2, 3}, {3, 1});
  norm.Forward(x);
  EXPECT_EQ(norm.running_mean.Item(), 1);
  EXPECT_EQ(norm.running_var.Item(), 1);
  EXPECT_EQ(norm.num_batches_tracked.Item(), 1);
  norm.Eval();
  EXPECT_THAT(norm.Forward(x).ToVector<float>(), ElementsAre(0, 0.5, 1));
  EXPECT_EQ(norm.running_mean.Item(), 1);
  EXPECT_EQ(norm.num_batches_tracked.Item(), 1);
}

TEST(BatchNormTest, WithoutRunningStatisticsTheBatchsAreTakenInEvaluationToo) {
  BatchNorm2d norm(2, {.track_running_stats = false});
  const Tensor x = Random({3, 2, 2, 2});
  const auto trained = norm.Forward(x).ToVector<float>();
  norm.Eval();
  EXPECT_EQ(norm.Forward(x).ToVector<float>(), trained);
}

TEST(BatchNormTest, ACheckpointCountsABatchOnce) {
  BatchNorm2d norm(2), plain(2);
  const Tensor x = Random({3, 2, 2, 2}), gradient = Tensor::Full(x.shape(), 1);
  Backward(Checkpoint([&](const Tensor& x) { return norm.Forward(x); }, x), gradient);
  Backward(plain.Forward(x), gradient);
  EXPECT_EQ(norm.num_batches_tracked.Item(), 1);
  EXPECT_EQ(norm.running_mean.ToVector<float>(), plain.running_mean.ToVector<float>());
  EXPECT_EQ(norm.running_var.ToVector<float>(), plain.running_var.ToVector<float>());
  EXPECT_EQ(Grad(norm.weight).ToVector<float>(), Grad(plain.weight).ToVector<float>());
}

class Block : public Module {
 public:
  Block() {
    Register("norm", norm);
    Register("flat", flat);
    Register("groups", groups);
    Register("rows", rows);
  }

  BatchNorm2d norm{16};
  BatchNorm1d flat{16};
  GroupNorm groups{4, 16};
  LayerNorm rows{Shape{2, 16}};
};

TEST(NormalizationTest, AWrongInputIsToldWithTheLayersPath) {
  Block block;
  const auto told = [](const char* message) {
    return ThrowsMessage<std::invalid_argument>(HasSubstr(message));
  };
  EXPECT_THAT(
      [&] {
        block.norm.Forward(Random({4, 16}));
      },
      told("BatchNorm2d 'norm': input float32[4, 16] doesn't fit: expected [batch, 16, "
           "height, width]"));
  EXPECT_THAT([&] { block.norm.Forward(Random({4, 8, 2, 2})); }, told("float32[4, 8, 2, 2]"));
  EXPECT_THAT(
      [&] {
        block.flat.Forward(Random({4, 16, 2, 2}));
      },
      told("BatchNorm1d 'flat': input float32[4, 16, 2, 2] doesn't fit: expected [batch, "
           "16] or [batch, 16, length]"));
  EXPECT_THAT([&] { block.groups.Forward(Random({16})); }, told("GroupNorm 'groups'"));
  EXPECT_THAT([&] { block.rows.Forward(Random({16})); },
              told("LayerNorm 'rows': input float32[16] doesn't fit: expected [..., 2, 16]"));
  EXPECT_THAT([&] { block.rows.Forward(Tensor()); }, told("undefined"));
  EXPECT_THAT([] { GroupNorm(3, 16); }, told("3 groups don't divide 16 channels"));
}

TEST(NormalizationTest, BackwardReachesTheParameters) {
  BatchNorm2d norm(2);
  Backward(norm.Forward(Random({3, 2, 2, 2})), Random({3, 2, 2, 2}));
  EXPECT_TRUE(Grad(norm.weight).defined());
  EXPECT_TRUE(Grad(norm.bias).defined());
}

}  // namespace
}  // namespace ops::nn
