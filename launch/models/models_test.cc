#include "launch/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/models/data.h"
#include "ops/autograd/elementwise.h"
#include "ops/autograd/grad.h"
#include "ops/optim/adam.h"
#include "ops/optim/loss_scaler.h"
#include "ops/optim/master_weights.h"

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
  EXPECT_THAT(Describe(MakeModel(FindModel("mlp"), {.hidden = {32, 16}}, 0)->Parameters()),
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

TEST(Models, ResNetsNamesAreThoseOfItsBlocks) {
  const auto model = MakeModel(FindModel("resnet"), {}, 0);
  std::vector<std::string> names;
  for (const auto& parameter : model->Parameters()) names.push_back(parameter.name);
  EXPECT_THAT(names, testing::IsSupersetOf({"c.weight", "b.bias", "r.0.c1.weight", "r.1.b2.weight",
                                            "r.1.skip.0.weight", "r.1.skip.1.bias", "f.weight"}));
  EXPECT_EQ(names.size(), 26);
}

TEST(Models, GptTiesItsHead) {
  const auto model =
      MakeModel(FindModel("gpt"),
                {.gpt = {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocab = 64}}, 0);
  const auto parameters = model->Parameters();
  EXPECT_EQ(parameters.size(), 2 + 2 * 12 + 2);
  EXPECT_EQ(parameters[0].name, "wte.weight");
  EXPECT_EQ(parameters[0].tensor.Describe(), "float32[64, 32]");
  EXPECT_EQ(parameters[1].tensor.Describe(), "float32[16, 32]");
  EXPECT_EQ(parameters.back().name, "lnf.bias");
  const ops::Tensor ids = ops::Tensor::Zeros({3, 16}, {.dtype = ops::DType::kInt64});
  EXPECT_EQ(model->Forward(ids).Describe(), "float32[3, 16, 64]");
  EXPECT_EQ(model->Forward(ids.View({16, 3})).Describe(), "float32[16, 3, 64]");
  EXPECT_THROW(model->Forward(ids.View({1, 48})), std::invalid_argument);
  EXPECT_THROW(model->Forward(ids.View({48})), std::invalid_argument);
}

TEST(Models, GptOptionsMustGoTogether) {
  const auto make = [](const GptOptions& gpt) {
    return MakeModel(FindModel("gpt"), {.gpt = gpt}, 0);
  };
  EXPECT_THAT([&] { make({.width = 30, .heads = 4}); },
              testing::ThrowsMessage<std::invalid_argument>(
                  testing::HasSubstr("width 30 is not a multiple of 4 heads")));
  EXPECT_THROW(make({.layers = 0}), std::invalid_argument);
  EXPECT_THROW(make({.vocab = -1}), std::invalid_argument);
}

TEST(Models, EachLearnsFromSyntheticData) {
  const ModelOptions small = {.hidden = {8}, .gpt = {.layers = 1, .width = 16, .heads = 2}};
  for (const ModelInfo& info : Models()) {
    const auto model = MakeModel(info, small, 0);
    const Datasets data = OpenData({"synthetic", ""}, info.task, {});
    const ddp::Batch batch = data.train->GetBatch(std::vector<int64_t>{3, 1, 4});
    ops::Backward(LossOf(info.task)(model->Forward(batch.inputs), batch.targets));
    for (const auto& parameter : model->Parameters()) {
      EXPECT_TRUE(ops::Grad(parameter.tensor).defined()) << info.name << " " << parameter.name;
    }
  }
}

// As a trainer does it: the loss in float32, masters for the optimizer, and a scaled loss.
TEST(Models, EachLearnsIn16Bits) {
  const ModelOptions small = {.hidden = {8}, .gpt = {.layers = 1, .width = 16, .heads = 2}};
  for (const ops::DType dtype : {ops::DType::kBFloat16, ops::DType::kFloat16}) {
    for (const ModelInfo& info : Models()) {
      SCOPED_TRACE(info.name + " " + std::string(ops::Name(dtype)));
      const auto model = MakeModel(info, small, 0);
      const Datasets data = OpenData({"synthetic", ""}, info.task, {});
      ddp::Batch batch = data.train->GetBatch(std::vector<int64_t>{3, 1, 4, 15, 9, 2, 6, 5});
      model->To(dtype);
      if (ops::IsFloating(batch.inputs.dtype())) batch.inputs = batch.inputs.To(dtype);
      ops::optim::MasterWeights masters(model->Parameters());
      ops::optim::Adam optimizer(masters.parameters(), {.learning_rate = 0.01});
      ops::optim::LossScaler scaler({.initial_scale = 1024});
      std::vector<double> losses;
      for (int step = 0; step < 8; ++step) {
        model->ZeroGrad();
        const ops::Tensor loss = LossOf(info.task)(
            Cast(model->Forward(batch.inputs), ops::DType::kFloat32), batch.targets);
        ops::Backward(scaler.Scale(loss));
        masters.WidenGradients();
        EXPECT_TRUE(scaler.Unscale(masters.parameters())) << "step " << step;
        optimizer.Step();
        masters.RoundIntoModel();
        scaler.Update();
        losses.push_back(loss.Item());
      }
      EXPECT_LT(losses.back(), losses.front());
    }
  }
}

TEST(Models, ImageModelsSeeDigitsAndColours) {
  for (const char* name : {"mlp", "convnet", "resnet"}) {
    for (const char* data : {"digits", "cifar10:DIR"}) {
      const ImageOptions images = ImagesOf(ParseDataSource(data));
      const auto model = MakeModel(FindModel(name), {.hidden = {8}, .images = images}, 0);
      const ops::Tensor x = ops::Tensor::Zeros({2, images.channels, images.height, images.width});
      EXPECT_EQ(model->Forward(x).Describe(), "float32[2, 10]") << name << " " << data;
    }
  }
}

TEST(Data, TheLastTenthOfATextIsForTesting) {
  const std::string path = testing::TempDir() + "/text";
  std::ofstream(path) << std::string(1000, 'x');
  const Datasets data = OpenData({"text", path}, Task::kLanguage, {.context = 10, .vocab = 256});
  EXPECT_EQ(data.train->size(), 89);  // of 900 tokens, the last window needs one more
  EXPECT_EQ(data.test->size(), 9);
}

TEST(Data, ATextTooShortForBothPartsSaysWhatWouldDo) {
  const auto open = [](int size, int64_t context) {
    const std::string path = testing::TempDir() + "/short_text";
    std::ofstream(path) << std::string(size, 'x');
    return OpenData({"text", path}, Task::kLanguage, {.context = context, .vocab = 256});
  };
  for (const int size : {4, 21, 22, 23, 100}) {
    const int64_t longest = size / 2 - 1;
    EXPECT_GE(open(size, longest).test->size(), 1) << size;
    EXPECT_THAT([&] { open(size, longest + 1); },
                testing::ThrowsMessage<std::invalid_argument>(testing::AllOf(
                    testing::HasSubstr("short_text' has " + std::to_string(size) + " tokens"),
                    testing::HasSubstr("up to " + std::to_string(longest) + " would do"))));
  }
  for (const int size : {0, 1, 3}) {
    EXPECT_THAT([&] { open(size, 1); }, testing::ThrowsMessage<std::invalid_argument>(
                                            testing::HasSubstr("no context would do")));
  }
}

TEST(Data, TheLastShardIsForTesting) {
  for (int i = 0; i < 3; ++i) {
    std::ofstream(testing::TempDir() + "/shard" + std::to_string(i)) << std::string(2 * 21, '\0');
  }
  const Datasets data = OpenData({"tokens", testing::TempDir() + "/shard?"}, Task::kLanguage,
                                 {.context = 10, .vocab = 5});
  EXPECT_EQ(data.train->size(), 4);
  EXPECT_EQ(data.test->size(), 2);
}

TEST(Models, TrainAndTestDataDiffer) {
  for (const Task task : {Task::kRegression, Task::kClassification, Task::kLanguage}) {
    const Datasets data = OpenData({"synthetic", ""}, task, {});
    EXPECT_NE(data.train->Get(0).input.ToVector<double>(),
              data.test->Get(0).input.ToVector<double>());
  }
}

}  // namespace
}  // namespace launch
