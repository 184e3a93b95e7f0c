// Every layer and loss in bfloat16 and float16, forward and backward, beside the same in float32
// with the same (rounded) weights and inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/nn/losses.h"

namespace ops::nn {
namespace {

// Some roundings, of values as large as the largest.
double Tolerance(DType dtype) { return dtype == DType::kBFloat16 ? 0.03 : 0.004; }

void ExpectNear(const Tensor& narrow, const Tensor& wide, DType dtype, const std::string& what) {
  ASSERT_TRUE(narrow.defined() && wide.defined()) << what;
  ASSERT_EQ(narrow.dtype(), dtype) << what;
  const auto got = narrow.ToVector<double>(), expected = wide.ToVector<double>();
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], Tolerance(dtype) * largest) << what << ", element " << i;
  }
}

using MakeLayer = std::function<std::unique_ptr<Module>()>;

template <class Layer, class... Arguments>
MakeLayer Make(Arguments... arguments) {
  return [=] { return std::make_unique<Layer>(arguments...); };
}

struct LayerCase {
  std::string name;
  MakeLayer make;
  Shape input;
};

std::vector<LayerCase> Layers() {
  const Shape rows = {6, 8}, sequences = {3, 4, 6}, images = {2, 4, 6, 6};
  return {
      {"Linear", Make<Linear>(8, 5), rows},
      {"Conv1d", Make<Conv1d>(4, 3, 3), sequences},
      {"Conv2d", Make<Conv2d>(4, 8, 3), images},
      {"ConvTranspose1d", Make<ConvTranspose1d>(4, 3, 3), sequences},
      {"ConvTranspose2d", Make<ConvTranspose2d>(4, 3, 3), images},
      {"SelfAttention", Make<SelfAttention>(6, 2), sequences},
      {"LayerNorm", Make<LayerNorm>(8), rows},
      {"RmsNorm", Make<RmsNorm>(8), rows},
      {"GroupNorm", Make<GroupNorm>(2, 4), images},
      {"BatchNorm1d", Make<BatchNorm1d>(8), rows},
      {"BatchNorm2d", Make<BatchNorm2d>(4), images},
      {"MaxPool1d", Make<MaxPool1d>(2), sequences},
      {"MaxPool2d", Make<MaxPool2d>(2), images},
      {"AvgPool1d", Make<AvgPool1d>(2), sequences},
      {"AvgPool2d", Make<AvgPool2d>(2), images},
      {"AdaptiveAvgPool1d", Make<AdaptiveAvgPool1d>(2), sequences},
      {"AdaptiveAvgPool2d", Make<AdaptiveAvgPool2d>(2), images},
      {"AdaptiveMaxPool1d", Make<AdaptiveMaxPool1d>(2), sequences},
      {"AdaptiveMaxPool2d", Make<AdaptiveMaxPool2d>(2), images},
      {"Relu", Make<Relu>(), rows},
      {"LeakyRelu", Make<LeakyRelu>(), rows},
      {"Gelu", Make<Gelu>(), rows},
      {"Silu", Make<Silu>(), rows},
      {"Sigmoid", Make<Sigmoid>(), rows},
      {"Tanh", Make<Tanh>(), rows},
      {"Softmax", Make<Softmax>(), rows},
      {"LogSoftmax", Make<LogSoftmax>(), rows},
      {"Flatten", Make<Flatten>(), images},
  };
}

// Two of a kind with the same weights: one in `dtype`, and one that has its values in float32.
std::pair<std::unique_ptr<Module>, std::unique_ptr<Module>> Twins(const MakeLayer& make,
                                                                  DType dtype) {
  auto narrow = make(), wide = make();
  narrow->To(dtype);
  wide->To(dtype);
  wide->LoadStateDict(narrow->StateDict());
  wide->To(DType::kFloat32);
  return {std::move(narrow), std::move(wide)};
}

void ExpectSameGradients(const Module& narrow, const Module& wide, DType dtype) {
  const auto parameters = narrow.Parameters(), expected = wide.Parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    ExpectNear(Grad(parameters[i].tensor), Grad(expected[i].tensor), dtype, parameters[i].name);
  }
}

void ExpectLayerWorks(const LayerCase& layer, DType dtype) {
  const auto [narrow, wide] = Twins(layer.make, dtype);
  Generator generator(1);
  const Tensor x = SetRequiresGrad(Tensor::Randn(layer.input, generator, {.dtype = dtype}));
  const Tensor wide_x = SetRequiresGrad(x.To(DType::kFloat32));
  const Tensor y = narrow->Forward(x), wide_y = wide->Forward(wide_x);
  ExpectNear(y, wide_y, dtype, "output");
  const Tensor dy = Tensor::Randn(y.shape(), generator, {.dtype = dtype});
  Backward(y, dy);
  Backward(wide_y, dy.To(DType::kFloat32));
  ExpectNear(Grad(x), Grad(wide_x), dtype, "gradient of the input");
  ExpectSameGradients(*narrow, *wide, dtype);
}

class HalfPrecisionTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, HalfPrecisionTest,
                         testing::Values(DType::kBFloat16, DType::kFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(HalfPrecisionTest, Layers) {
  for (const LayerCase& layer : Layers()) {
    SCOPED_TRACE(layer.name);
    EXPECT_NO_THROW(ExpectLayerWorks(layer, GetParam()));
  }
}

TEST_P(HalfPrecisionTest, Embedding) {
  const auto [narrow, wide] = Twins(Make<Embedding>(5, 3), GetParam());
  const Tensor ids = Tensor::FromVector<int64_t>({4, 0, 4, 2}, {2, 2});
  const Tensor y = narrow->Forward(ids), wide_y = wide->Forward(ids);
  ExpectNear(y, wide_y, GetParam(), "output");
  Generator generator(1);
  const Tensor dy = Tensor::Randn(y.shape(), generator, {.dtype = GetParam()});
  Backward(y, dy);
  Backward(wide_y, dy.To(DType::kFloat32));
  ExpectSameGradients(*narrow, *wide, GetParam());
}

TEST_P(HalfPrecisionTest, Losses) {
  using Loss = std::function<Tensor(const Tensor& x, const Tensor& target)>;
  const Tensor classes = Tensor::FromVector<int64_t>({4, 0, 1}, {3});
  const std::pair<std::string, Loss> losses[] = {
      {"MseLoss", [](const Tensor& x, const Tensor& t) { return MseLoss(x, t); }},
      {"L1Loss", [](const Tensor& x, const Tensor& t) { return L1Loss(x, t); }},
      {"HuberLoss", [](const Tensor& x, const Tensor& t) { return HuberLoss(x, t); }},
      {"BceWithLogitsLoss",
       [](const Tensor& x, const Tensor& t) { return BceWithLogitsLoss(x, t); }},
      {"CrossEntropyLoss",
       [&](const Tensor& x, const Tensor&) { return CrossEntropyLoss(x, classes); }},
  };
  Generator generator(1);
  const Tensor x = SetRequiresGrad(Tensor::Randn({3, 5}, generator, {.dtype = GetParam()}));
  const Tensor wide_x = SetRequiresGrad(x.To(DType::kFloat32));
  const Tensor target = Tensor::Rand({3, 5}, generator, {.dtype = GetParam()});
  for (const auto& [name, loss] : losses) {
    SCOPED_TRACE(name);
    ClearGrad(x);
    ClearGrad(wide_x);
    const Tensor y = loss(x, target), wide_y = loss(wide_x, target.To(DType::kFloat32));
    ExpectNear(y, wide_y, GetParam(), "loss");
    Backward(y);
    Backward(wide_y);
    ExpectNear(Grad(x), Grad(wide_x), GetParam(), "gradient");
  }
}

}  // namespace
}  // namespace ops::nn
