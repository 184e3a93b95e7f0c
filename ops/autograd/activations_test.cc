#include "ops/autograd/activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> call;
};

const Function kFunctions[] = {
    {"Relu", Relu},
    {"LeakyRelu", [](const Tensor& x) { return LeakyRelu(x, 0.2); }},
    {"Gelu", [](const Tensor& x) { return Gelu(x); }},
    {"Gelu", [](const Tensor& x) { return Gelu(x, Approximate::kTanh); }},
    {"Sigmoid", Sigmoid},
    {"Tanh", Tanh},
    {"Silu", Silu},
    {"Dropout", [](const Tensor& x) { return Dropout(x, 0.5, {.seed = 1, .first_position = 2}); }},
};

TEST(ActivationsTest, GradientsMatchDifferences) {
  Generator generator(3);
  for (const Function& function : kFunctions) {
    const auto call = [&](const std::vector<Tensor>& in) { return function.call(in[0]); };
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{17}, Shape{5, 17}}) {
      SCOPED_TRACE(function.name + shape.ToString());
      EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}));
      EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}, {.accumulate = true}));
      // A computed input that is used a second time.
      EXPECT_TRUE(GradientsMatch(
          [&](const std::vector<Tensor>& in) {
            const Tensor x = in[0] * 2;
            return function.call(x) + x;
          },
          {RandomLeaf(shape, generator)}));
    }
  }
}

TEST(ActivationsTest, GradientsOfTwoInputsMatchDifferences) {
  Generator generator(3);
  for (Tensor (*function)(const Tensor&, const Tensor&) : {AddRelu, SwiGlu}) {
    const auto call = [&](const std::vector<Tensor>& in) { return function(in[0], in[1]); };
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5, 17}}) {
      const Tensor a = RandomLeaf(shape, generator), b = RandomLeaf(shape, generator);
      EXPECT_TRUE(GradientsMatch(call, {a, b}));
      EXPECT_TRUE(GradientsMatch(call, {a, b}, {.accumulate = true}));
      EXPECT_TRUE(GradientsMatch(call, {a.Detach(), b}));
      EXPECT_TRUE(GradientsMatch(call, {a, b.Detach()}));
      // A residual block: one input goes another way, too.
      EXPECT_TRUE(GradientsMatch(
          [&](const std::vector<Tensor>& in) {
            const Tensor x = in[0] * 2;
            return Tanh(function(Tanh(x), x)) * 3 + x;
          },
          {a}));
      EXPECT_TRUE(GradientsMatch(
          [&](const std::vector<Tensor>& in) { return function(in[0], in[0]); }, {a}));
    }
  }
}

TEST(ReluTest, Values) {
  const Tensor x = SetRequiresGrad(Tensor::FromVector<float>({-1, 0, 2, NAN}, {4}));
  const Tensor y = Relu(x);
  EXPECT_THAT(y.Slice(0, 3).ToVector<float>(), ElementsAre(0, 0, 2));
  EXPECT_TRUE(std::isnan(y.data<float>()[3]));
  Backward(y, Tensor::Full({4}, 5));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(0, 0, 5, 5));
}

TEST(AddReluTest, Values) {
  const Tensor a = Tensor::FromVector<float>({-1, 1, 2}, {3});
  const Tensor b = Tensor::FromVector<float>({0.5, 1, -2}, {3});
  EXPECT_THAT(AddRelu(a, b).ToVector<float>(), ElementsAre(0, 2, 0));
}

TEST(DropoutTest, ScalesWhatItKeeps) {
  const Tensor x = Tensor::Full({1000}, 3);
  int64_t dropped = 0;
  for (const float y : Dropout(x, 0.25, {.seed = 1}).ToVector<float>()) {
    EXPECT_TRUE(y == 0 || y == 4) << y;
    dropped += y == 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 250, 50);
}

TEST(DropoutTest, TheMaskDependsOnSeedStepAndPosition) {
  const Tensor x = Tensor::Full({100}, 1);
  const auto draw = [&](const DropoutKey& key) { return Dropout(x, 0.5, key).ToVector<float>(); };
  const std::vector<float> first = draw({1, 2, 30});
  EXPECT_EQ(draw({1, 2, 30}), first);
  EXPECT_NE(draw({2, 2, 30}), first);
  EXPECT_NE(draw({1, 3, 30}), first);
  const std::vector<float> later = draw({1, 2, 40});
  EXPECT_TRUE(std::equal(first.begin() + 10, first.end(), later.begin()));
}

TEST(ActivationsTest, Refuse) {
  const auto refused = [](auto... parts) {
    return ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(parts)...));
  };
  const Tensor x = Tensor::Zeros({3}), ids = Tensor::Zeros({3}, {DType::kInt64});
  for (const Function& function : kFunctions) {
    EXPECT_THAT([&] { function.call(Tensor()); }, refused(function.name, "undefined"));
    EXPECT_THAT([&] { function.call(ids); }, refused(function.name, "int64[3]"));
  }
  EXPECT_THAT([&] { AddRelu(x, Tensor::Zeros({1})); }, refused("AddRelu", "[3]", "[1]"));
  EXPECT_THAT([&] { SwiGlu(x, x.To(DType::kFloat64)); }, refused("SwiGlu", "float64[3]"));
  EXPECT_THAT([&] { Dropout(x, 1.5, {}); }, refused("Dropout", "1.5"));
  EXPECT_THAT([&] { Dropout(x, NAN, {}); }, refused("Dropout", "nan"));
  EXPECT_THAT([&] { Dropout(x, 0.5, {.first_position = -1}); }, refused("first_position is -1"));
}

}  // namespace
}  // namespace ops
