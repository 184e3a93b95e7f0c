#include "launch/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "launch/models/data.h"
#include "ops/autograd/grad.h"

namespace launch {
namespace {

std::vector<std::string> Describe(const std::vector<ops::NamedTensor>& tensors) {
  std::vector<std::string> texts;
  for (const auto& [name, tensor] : tensors) texts.push_back(name + " " + tensor.Describe());
  return texts;
}

TEST(Models, NamesAndShapesArePyTorchs) {
  EXPECT_THAT(Describe(MakeModel(FindModel("linear"), {}, 0)->Parameters()),
              testing::ElementsAre("weight float32[2, 5]", "bias float32[2]"));
  EXPECT_THAT(Describe(MakeModel(FindModel("mlp"), {32, 16}, 0)->Parameters()),
              testing::ElementsAre("0.weight float32[32, 784]", "0.bias float32[32]",
                                   "2.weight float32[16, 32]", "2.bias float32[16]",
                                   "4.weight float32[10, 16]", "4.bias float32[10]"));
}

TEST(Models, SeedsDecideTheInitialValues) {
  const auto weights = [](uint64_t seed) {
    return MakeModel(FindModel("linear"), {}, seed)->Parameters()[0].tensor.ToVector<float>();
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(Models, EachLearnsFromEachDataThatSuitsIt) {
  for (const ModelInfo& info : Models()) {
    for (const DataSource& source : {DataSource{"digits", ""}, DataSource{"synthetic", ""}}) {
      if (source.name == "digits" && info.task != Task::kClassification) continue;
      const auto model = MakeModel(info, {8}, 0);
      const Datasets data = OpenData(source, info.task, 0);
      const ddp::Batch batch = data.train->GetBatch(std::vector<int64_t>{3, 1, 4});
      const ops::Tensor loss = LossOf(info.task)(model->Forward(batch.inputs), batch.targets);
      ops::Backward(loss);
      EXPECT_TRUE(ops::Grad(model->Parameters()[0].tensor).defined()) << info.name;
    }
  }
}

TEST(Models, TrainAndTestDataDiffer) {
  for (const Task task : {Task::kRegression, Task::kClassification}) {
    const Datasets data = OpenData({"synthetic", ""}, task, 0);
    EXPECT_NE(data.train->Get(0).input.ToVector<float>(),
              data.test->Get(0).input.ToVector<float>());
  }
}

}  // namespace
}  // namespace launch
