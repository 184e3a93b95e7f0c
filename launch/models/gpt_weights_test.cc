#include "launch/models/gpt_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/checkpoint/safetensors.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/rearrange.h"

namespace launch {
namespace {

using ops::NamedTensor;
using ops::Tensor;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

// Made by testdata/make_gpt2.py, with PyTorch.
constexpr const char* kFile = "launch/models/testdata/gpt2.safetensors";

std::vector<NamedTensor> FileTensors() { return ddp::ReadSafetensors(kFile); }

NamedTensor& Find(std::vector<NamedTensor>& tensors, const std::string& name) {
  return *std::ranges::find(tensors, name, &NamedTensor::name);
}

std::string Write(const std::vector<NamedTensor>& tensors,
                  const ddp::SafetensorsMetadata& metadata = {{"heads", "3"}}) {
  std::string path = testing::TempDir() + "/weights.safetensors";
  ddp::WriteSafetensors(path, tensors, metadata);
  return path;
}

void ExpectPyTorchsLogits(Gpt& model) {
  const auto golden = ddp::ReadSafetensors("launch/models/testdata/gpt2_logits.safetensors");
  const std::vector<float> expected = golden[1].tensor.ToVector<float>();
  const std::vector<float> logits = model.Forward(golden[0].tensor).ToVector<float>();
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 2e-5) << i;
}

TEST(GptWeights, HuggingFacesNamesAndLayout) {
  const auto model = LoadGpt(kFile);
  EXPECT_EQ(model->options().layers, 2);
  EXPECT_EQ(model->options().width, 24);
  EXPECT_EQ(model->options().heads, 3);
  EXPECT_EQ(model->options().context, 12);
  EXPECT_EQ(model->options().vocab, 40);
  ExpectPyTorchsLogits(*model);
}

TEST(GptWeights, OurNames) {
  const std::string path = Write(LoadGpt(kFile)->StateDict());
  ExpectPyTorchsLogits(*LoadGpt(path));
}

TEST(GptWeights, LinearLayoutUnderHuggingFacesNames) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : FileTensors()) {
    const bool is_conv1d = name.find(".c_") != name.npos && name.ends_with("weight");
    std::string bare = name;
    if (bare.starts_with("transformer.")) bare.erase(0, std::string("transformer.").size());
    tensors.push_back({bare, is_conv1d ? ops::Transpose(tensor, 0, 1) : tensor});
  }
  ExpectPyTorchsLogits(*LoadGpt(Write(tensors)));
}

TEST(GptWeights, HeadsComeFromTheCallerOrTheFileOrTheWidth) {
  EXPECT_EQ(LoadGpt(kFile, 4)->options().heads, 4);
  EXPECT_EQ(LoadGpt(Write(FileTensors(), {}))->options().heads, 1);  // 24 / 64, at least 1
  EXPECT_THAT([] { LoadGpt(kFile, 5); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("24 is not a multiple of 5 heads")));
  EXPECT_THAT(
      [] {
        LoadGpt(Write(FileTensors(), {{"heads", "many"}}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("heads=many")));
}

TEST(GptWeights, HalfPrecisionIsWidened) {
  auto tensors = FileTensors();
  for (NamedTensor& tensor : tensors) tensor.tensor = tensor.tensor.To(ops::DType::kBFloat16);
  const auto model = LoadGpt(Write(tensors));
  const Tensor& weight = model->Parameters()[0].tensor;
  EXPECT_EQ(weight.dtype(), ops::DType::kFloat32);
  EXPECT_EQ(weight.ToVector<double>(),
            Find(tensors, "transformer.wte.weight").tensor.ToVector<double>());
}

TEST(GptWeights, ABlockWithoutItsFirstLayerIsStillABlock) {
  auto tensors = FileTensors();
  std::erase_if(tensors, [](const auto& tensor) {
    return tensor.name == "transformer.h.0.ln_1.weight" || tensor.name.ends_with("c_attn.weight");
  });
  EXPECT_THAT([&] { LoadGpt(Write(tensors)); },
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("it lacks 'blocks.0.ln1.weight'"),
                  HasSubstr("it lacks 'blocks.1.qkv.weight'"), Not(HasSubstr("none of its")))));
}

TEST(GptWeights, NamesWhatDoesNotFit) {
  auto missing = FileTensors();
  std::erase_if(missing,
                [](const auto& tensor) { return tensor.name.ends_with("1.mlp.c_fc.bias"); });
  Find(missing, "transformer.h.1.mlp.c_proj.weight").tensor = Tensor::Zeros({24, 24});
  EXPECT_THAT([&] { LoadGpt(Write(missing)); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("weights.safetensors"), HasSubstr("it lacks 'blocks.1.fc.bias'"),
                        HasSubstr("'transformer.h.1.mlp.c_proj.weight' is float32[24, 24], "
                                  "expected [96, 24]"))));

  auto reshaped = FileTensors();
  Find(reshaped, "transformer.h.0.ln_2.weight").tensor = Tensor::Zeros({25});
  EXPECT_THAT([&] { LoadGpt(Write(reshaped)); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("'transformer.h.0.ln_2.weight' is float32[25], expected [24]")));

  auto foreign = FileTensors();
  foreign.push_back({"transformer.h.0.moe.gate", Tensor::Zeros({2})});
  EXPECT_THAT([&] { LoadGpt(Write(foreign)); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'transformer.h.0.moe.gate'")));

  auto untied = FileTensors();
  Find(untied, "lm_head.weight").tensor = Tensor::Zeros({40, 24});
  EXPECT_THAT([&] { LoadGpt(Write(untied)); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("lm_head.weight")));

  EXPECT_THAT(
      [&] {
        LoadGpt(Write({{"a", Tensor::Zeros({1})}}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("it lacks 'wte.weight'")));
  EXPECT_THROW(LoadGpt("/nowhere/gpt2.safetensors"), std::system_error);
}

}  // namespace
}  // namespace launch
