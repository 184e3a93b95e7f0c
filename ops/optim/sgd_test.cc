#include "ops/optim/sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/tensor/random.h"

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor RandomParameter(const Shape& shape, Generator& generator, DType dtype) {
  return SetRequiresGrad(Tensor::Randn(shape, generator, {.dtype = dtype}));
}

// PyTorch's formula, one number at a time, in float64.
struct Reference {
  void Step(const SgdOptions& options, const std::vector<double>& gradient) {
    if (buffer.empty()) buffer.resize(gradient.size());
    for (size_t i = 0; i < parameter.size(); ++i) {
      const double g = gradient[i] + options.weight_decay * parameter[i];
      buffer[i] = steps == 0 ? g : options.momentum * buffer[i] + g;
      parameter[i] -= options.learning_rate * (options.momentum != 0 ? buffer[i] : g);
    }
    ++steps;
  }
  std::vector<double> parameter;
  std::vector<double> buffer = {};
  int steps = 0;
};

void ExpectNear(const Tensor& tensor, const std::vector<double>& expected, double tolerance) {
  const auto values = tensor.ToVector<double>();
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << i;
}

TEST(SgdTest, FollowsPyTorchsFormula) {
  for (const SgdOptions& options :
       {SgdOptions{.learning_rate = 0.1}, SgdOptions{.learning_rate = 0.1, .momentum = 0.9},
        SgdOptions{.learning_rate = 0.1, .weight_decay = 0.01},
        SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}}) {
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::kFloat64, 1e-14}, {DType::kFloat32, 2e-6}}) {
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3}, Shape{17}, Shape{33, 9}}) {
        Generator generator(1);
        const Tensor parameter = RandomParameter(shape, generator, dtype);
        Reference reference{parameter.ToVector<double>()};
        Sgd optimizer({{"p", parameter}}, options);
        for (int step = 0; step < 5; ++step) {
          SetGrad(parameter, Tensor::Randn(shape, generator, {.dtype = dtype}));
          const auto gradient = Grad(parameter).ToVector<double>();
          optimizer.Step();
          reference.Step(options, gradient);
          ExpectNear(parameter, reference.parameter, tolerance);
          EXPECT_EQ(Grad(parameter).ToVector<double>(), gradient);
        }
      }
    }
  }
}

TEST(SgdTest, LeavesParametersWithoutGradientAlone) {
  const Tensor used = SetRequiresGrad(Tensor::Full({2}, 1)), unused = SetRequiresGrad(used.Clone());
  Sgd optimizer({{"used", used}, {"unused", unused}},
                {.learning_rate = 1, .momentum = 0.5, .weight_decay = 0.5});
  SetGrad(used, Tensor::Full({2}, 1));
  optimizer.Step();
  EXPECT_THAT(used.ToVector<float>(), ElementsAre(-0.5, -0.5));
  EXPECT_THAT(unused.ToVector<float>(), ElementsAre(1, 1));
  // Its first step comes when its first gradient comes.
  optimizer.ZeroGrad();
  SetGrad(unused, Tensor::Full({2}, 1));
  optimizer.Step();
  EXPECT_THAT(used.ToVector<float>(), ElementsAre(-0.5, -0.5));
  EXPECT_THAT(unused.ToVector<float>(), ElementsAre(-0.5, -0.5));
}

TEST(SgdTest, StepsWithTheLearningRateOfTheMoment) {
  const Tensor p = SetRequiresGrad(Tensor::Full({1}, 1));
  Sgd optimizer({{"p", p}}, {.learning_rate = 0.5});
  SetGrad(p, Tensor::Full({1}, 1));
  optimizer.Step();
  optimizer.set_learning_rate(0.25);
  optimizer.Step();
  EXPECT_EQ(p.Item(), 0.25);
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
}

// The numbers are PyTorch 1.13's.
TEST(SgdTest, NesterovsMomentum) {
  const auto float64 = [](const std::vector<double>& values) {
    return Tensor::FromVector(values, {3});
  };
  const Tensor p = SetRequiresGrad(float64({1, -2, 3}));
  Sgd optimizer({{"p", p}},
                {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  for (const auto& gradient : {float64({0.5, -1, 2}), float64({1, 1, -1}), float64({0.25, 0, 3})}) {
    SetGrad(p, gradient);
    optimizer.Step();
  }
  ExpectNear(p, {0.50239045819099992, -1.911697916382, 1.9907919316230001}, 1e-15);
}

TEST(SgdTest, FindsALinearFit) {
  Generator generator(1);
  const Tensor x = Tensor::Randn({64, 3}, generator);
  const Tensor truth = Tensor::FromVector<float>({1, -2, 3}, {1, 3});
  const Tensor target = Linear(x, truth, {});
  const Tensor weight = SetRequiresGrad(Tensor::Zeros({1, 3}));
  Sgd optimizer({{"weight", weight}}, {.learning_rate = 0.1, .momentum = 0.5});
  for (int step = 0; step < 200; ++step) {
    optimizer.ZeroGrad();
    Backward(MseLoss(Linear(x, weight, {}), target));
    optimizer.Step();
  }
  ExpectNear(weight, {1, -2, 3}, 1e-5);
}

TEST(SgdTest, RefusesOptionsThatMakeNoSense) {
  const Tensor p = SetRequiresGrad(Tensor::Zeros({1}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [&](const SgdOptions& options, const char* name, const char* value) {
    EXPECT_THAT(([&] {
                  Sgd({{"p", p}}, options);
                }),
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(name), HasSubstr(value))));
  };
  refused({.learning_rate = -0.1}, "learning_rate", "-0.1");
  refused({.learning_rate = nan}, "learning_rate", "nan");
  refused({.learning_rate = infinity}, "learning_rate", "inf");
  refused({.momentum = -1}, "momentum", "-1");
  refused({.momentum = nan}, "momentum", "nan");
  refused({.weight_decay = -0.5}, "weight_decay", "-0.5");
  refused({.nesterov = true}, "nesterov", "0");
  EXPECT_NO_THROW(Sgd({{"p", p}}, {.learning_rate = 0}));
}

}  // namespace
}  // namespace ops::optim
