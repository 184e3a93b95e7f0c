#include "launch/models/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/checkpoint/safetensors.h"
#include "launch/models/gpt.h"
#include "launch/models/models.h"

namespace launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Made by testdata/make_gpt2.py, with PyTorch, under Hugging Face's names.
constexpr const char* kGpt2 = "launch/models/testdata/gpt2.safetensors";

std::string Write(const std::vector<ops::NamedTensor>& tensors) {
  std::string path = testing::TempDir() + "/weights.safetensors";
  ddp::WriteSafetensors(path, tensors);
  return path;
}

std::vector<float> Values(const ops::nn::Module& model) {
  std::vector<float> values;
  for (const auto& [name, tensor] : model.StateDict()) {
    for (const float value : tensor.ToVector<float>()) values.push_back(value);
  }
  return values;
}

class WeightsTest : public testing::Test {
 protected:
  ops::Generator first_{1}, second_{2};
  Mlp source_{{6, 5, 3}, first_};
  Mlp model_{{6, 5, 3}, second_};
};

TEST_F(WeightsTest, AreCopiedByName) {
  auto tensors = source_.StateDict();
  std::swap(tensors[0], tensors[3]);
  LoadWeights(Write(tensors), model_);
  EXPECT_EQ(Values(model_), Values(source_));
}

TEST_F(WeightsTest, MayBeOfAnotherPrecision) {
  auto tensors = source_.StateDict();
  for (auto& [name, tensor] : tensors) tensor = tensor.To(ops::DType::kFloat64);
  LoadWeights(Write(tensors), model_);
  EXPECT_EQ(Values(model_), Values(source_));
}

TEST_F(WeightsTest, OtherNamesAndShapesAreNamed) {
  const std::vector<float> before = Values(model_);
  auto tensors = source_.StateDict();
  tensors[1].name = "1.bias";
  EXPECT_THAT([&] { LoadWeights(Write(tensors), model_); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("weights.safetensors' doesn't fit the model: "),
                        HasSubstr("missing: [0.bias], unexpected: [1.bias]"))));
  tensors = source_.StateDict();
  tensors[0].tensor = tensors[0].tensor.View({6, 5});
  EXPECT_THAT([&] { LoadWeights(Write(tensors), model_); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("'0.weight' is float32[6, 5], expected float32[5, 6]")));
  EXPECT_EQ(Values(model_), before);
}

TEST_F(WeightsTest, GptTakesHuggingFacesNames) {
  Gpt gpt({.layers = 2, .width = 24, .heads = 3, .context = 12, .vocab = 40}, first_);
  LoadWeights(kGpt2, gpt);
  EXPECT_EQ(gpt.Parameters()[0].tensor.ToVector<float>(),
            ddp::ReadSafetensors(kGpt2)[0].tensor.ToVector<float>());
  Gpt wider({.layers = 2, .width = 24, .heads = 3, .context = 16, .vocab = 40}, first_);
  EXPECT_THAT([&] { LoadWeights(kGpt2, wider); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("expected [16, 24]")));
  Gpt heads({.layers = 2, .width = 24, .heads = 4, .context = 12, .vocab = 40}, first_);
  EXPECT_THAT([&] { LoadWeights(kGpt2, heads); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("say 3 heads, the model has 4")));
}

}  // namespace
}  // namespace launch
