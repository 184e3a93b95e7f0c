#include "ops/nn/activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <vector>

#include "ops/autograd/checkpoint.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"

namespace ops::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Random(const Shape& shape) {
  Generator generator(1);
  return Tensor::Randn(shape, generator);
}

void ExpectSame(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.ToVector<float>(), b.ToVector<float>());
}

TEST(ActivationsTest, LayersComputeTheirFunctions) {
  const Tensor x = Random({2, 3, 4});
  ExpectSame(Relu().Forward(x), ops::Relu(x));
  ExpectSame(LeakyRelu(0.3).Forward(x), ops::LeakyRelu(x, 0.3));
  ExpectSame(Gelu().Forward(x), ops::Gelu(x));
  ExpectSame(Gelu(Approximate::kTanh).Forward(x), ops::Gelu(x, Approximate::kTanh));
  ExpectSame(Silu().Forward(x), ops::Silu(x));
  ExpectSame(Sigmoid().Forward(x), ops::Sigmoid(x));
  ExpectSame(Tanh().Forward(x), ops::Tanh(x));
  ExpectSame(Softmax().Forward(x), ops::Softmax(x, -1));
  ExpectSame(Softmax(1).Forward(x), ops::Softmax(x, 1));
  ExpectSame(LogSoftmax(0).Forward(x), ops::LogSoftmax(x, 0));
  ExpectSame(Flatten().Forward(x), x.View({2, 12}));
}

TEST(FlattenTest, KeepsTheBatch) {
  EXPECT_EQ(Flatten().Forward(Tensor::Zeros({0, 3, 4})).shape(), (Shape{0, 12}));
  EXPECT_THROW(Flatten().Forward(Tensor::Scalar(1)), std::invalid_argument);
}

TEST(DropoutTest, EvaluationPassesThrough) {
  Dropout dropout(0.9);
  dropout.Eval();
  const Tensor x = Random({100});
  EXPECT_TRUE(dropout.Forward(x).IsSameAs(x));
}

TEST(DropoutTest, EveryCallDrawsAnotherMaskAndEveryLayerItsOwn) {
  Generator generator(1), same(1);
  Dropout a(0.5, &generator), b(0.5, &generator), again(0.5, &same);
  const Tensor x = Tensor::Full({10, 10}, 1);
  const std::vector<float> first = a.Forward(x).ToVector<float>();
  const std::vector<float> second = a.Forward(x).ToVector<float>();
  EXPECT_NE(first, second);
  EXPECT_NE(first, b.Forward(x).ToVector<float>());
  EXPECT_EQ(first, again.Forward(x).ToVector<float>());
  EXPECT_EQ(second, again.Forward(x).ToVector<float>());
}

TEST(DropoutTest, PartsOfABatchDrawWhatTheWholeDraws) {
  Dropout dropout(0.5);
  const Tensor x = Random({7, 3, 5});
  const auto draw = [&](uint64_t step, int64_t begin, int64_t end) {
    const ScopedBatchPosition position(step, begin);
    return dropout.Forward(x.Slice(begin, end)).ToVector<float>();
  };
  const std::vector<float> whole = draw(4, 0, 7);
  std::vector<float> parts = draw(4, 0, 3);
  for (const float value : draw(4, 3, 7)) parts.push_back(value);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(draw(4, 0, 7), whole);
  EXPECT_NE(draw(5, 0, 7), whole);
}

TEST(DropoutTest, PositionsNestAndEnd) {
  EXPECT_EQ(ScopedBatchPosition::Current(), nullptr);
  const ScopedBatchPosition outer(1, 2);
  {
    const ScopedBatchPosition inner(3, 4);
    EXPECT_EQ(ScopedBatchPosition::Current(), &inner);
  }
  EXPECT_EQ(ScopedBatchPosition::Current(), &outer);
  EXPECT_EQ(outer.step(), 1u);
  EXPECT_EQ(outer.first_example(), 2);
}

TEST(DropoutTest, GradientsComeThroughWhatWasKept) {
  Dropout dropout(0.5);
  const Tensor x = SetRequiresGrad(Tensor::Full({100}, 1));
  const Tensor y = dropout.Forward(x);
  Backward(y, Tensor::Full({100}, 1));
  ExpectSame(Grad(x), y);
}

TEST(DropoutTest, ACheckpointsSecondRunHasTheMaskOfTheFirst) {
  Dropout dropout(0.5);
  for (const bool has_position : {false, true}) {
    const Tensor x = SetRequiresGrad(Tensor::Full({100}, 1));
    Tensor y;
    {
      std::optional<ScopedBatchPosition> position;
      if (has_position) position.emplace(3, 50);
      y = Checkpoint([&](const Tensor& x) { return dropout.Forward(x); }, x);
    }
    Backward(y, Tensor::Full({100}, 1));
    ExpectSame(Grad(x), y);
  }
}

TEST(DropoutTest, ACheckpointCountsOneCall) {
  Generator generator(1), same(1);
  Dropout dropout(0.5, &generator), alone(0.5, &same);
  const Tensor x = SetRequiresGrad(Tensor::Full({100}, 1)), gradient = Tensor::Full({100}, 1);
  Backward(Checkpoint([&](const Tensor& x) { return dropout.Forward(x); }, x), gradient);
  alone.Forward(x);
  ExpectSame(dropout.Forward(x), alone.Forward(x));
}

TEST(DropoutTest, EdgesOfProbability) {
  const Tensor x = Random({100});
  EXPECT_TRUE(Dropout(0).Forward(x).IsSameAs(x));
  ExpectSame(ops::Relu(Dropout(1).Forward(x)), Tensor::Zeros({100}));
  EXPECT_EQ(Dropout(0.5).Forward(Tensor::Zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(Dropout(0.5).Forward(Tensor::Scalar(0)).Item(), 0);
  for (const double wrong : {-0.1, 1.1, static_cast<double>(NAN)}) {
    EXPECT_THAT([=] { Dropout{wrong}; },
                ThrowsMessage<std::invalid_argument>(HasSubstr("expected one in [0, 1]")));
  }
}

}  // namespace
}  // namespace ops::nn
