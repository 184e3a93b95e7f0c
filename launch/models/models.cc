#include "launch/models/models.h"

#include <functional>
#include <map>
#include <string>

#include "launch/models/convnet.h"
#include "launch/models/gpt.h"
#include "launch/models/resnet.h"
#include "ops/autograd/functions.h"
#include "ops/tensor/random.h"

namespace launch {
namespace {

using ModelMaker = std::function<std::unique_ptr<ops::nn::Module>(const ModelOptions& options,
                                                                  ops::Generator& generator)>;

std::unique_ptr<ops::nn::Module> MakeLinear(const ModelOptions&, ops::Generator& generator) {
  return std::make_unique<ops::nn::Linear>(5, 2, ops::nn::LinearOptions{.generator = &generator});
}

std::unique_ptr<ops::nn::Module> MakeMlp(const ModelOptions& options, ops::Generator& generator) {
  std::vector<int64_t> widths = {options.images.num_pixels()};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(options.images.classes);
  return std::make_unique<Mlp>(widths, generator);
}

std::unique_ptr<ops::nn::Module> MakeConvNet(const ModelOptions& options,
                                             ops::Generator& generator) {
  return std::make_unique<ConvNet>(options.images, generator);
}

std::unique_ptr<ops::nn::Module> MakeResNet(const ModelOptions& options,
                                            ops::Generator& generator) {
  return std::make_unique<ResNet>(options.images, generator);
}

std::unique_ptr<ops::nn::Module> MakeGpt(const ModelOptions& options, ops::Generator& generator) {
  return std::make_unique<Gpt>(options.gpt, generator);
}

}  // namespace

Mlp::Mlp(const std::vector<int64_t>& widths, ops::Generator& generator) {
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) Add<ops::nn::Relu>();
    Add<ops::nn::Linear>(widths[i], widths[i + 1], ops::nn::LinearOptions{.generator = &generator});
  }
}

ops::Tensor Mlp::Forward(const ops::Tensor& x) { return Sequential::Forward(ops::Flatten(x)); }

std::unique_ptr<ops::nn::Module> MakeModel(const ModelInfo& info, const ModelOptions& options,
                                           uint64_t seed) {
  static const std::map<std::string, ModelMaker> makers = {{"linear", MakeLinear},
                                                           {"mlp", MakeMlp},
                                                           {"convnet", MakeConvNet},
                                                           {"resnet", MakeResNet},
                                                           {"gpt", MakeGpt}};
  ops::Generator generator(seed);
  return makers.at(info.name)(options, generator);
}

Loss LossOf(Task task) {
  if (task == Task::kRegression) {
    return [](const ops::Tensor& x, const ops::Tensor& target) { return ops::MseLoss(x, target); };
  }
  return [](const ops::Tensor& logits, const ops::Tensor& targets) {
    return ops::CrossEntropyLoss(logits, targets);
  };
}

}  // namespace launch
