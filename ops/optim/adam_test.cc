#include "ops/optim/adam.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/autograd/grad.h"
#include "ops/tensor/random.h"

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// PyTorch's formulas, one number at a time, in float64.
struct Reference {
  Reference(std::vector<double> parameter, bool decoupled)
      : parameter(std::move(parameter)),
        m(this->parameter.size()),
        v(m.size()),
        decoupled(decoupled) {}

  void Step(const AdamOptions& options, const std::vector<double>& gradient) {
    ++t;
    for (size_t i = 0; i < parameter.size(); ++i) {
      double& p = parameter[i];
      double g = gradient[i];
      if (decoupled) {
        p *= 1 - options.learning_rate * options.weight_decay;
      } else {
        g += options.weight_decay * p;
      }
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(options.beta1, t));
      const double v_hat = v[i] / (1 - std::pow(options.beta2, t));
      p -= options.learning_rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
    }
  }

  std::vector<double> parameter, m, v;
  bool decoupled;
  int t = 0;
};

class AdamTest : public testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<Optimizer> Make(const Tensor& parameter, const AdamOptions& options) {
    std::vector<NamedTensor> parameters = {{"p", parameter}};
    if (GetParam()) return std::make_unique<AdamW>(parameters, options);
    return std::make_unique<Adam>(parameters, options);
  }
};

TEST_P(AdamTest, FollowsPyTorchsFormula) {
  for (const AdamOptions& options :
       {AdamOptions{}, AdamOptions{.learning_rate = 0.1, .weight_decay = 0.1},
        AdamOptions{.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.9, .epsilon = 0.01},
        AdamOptions{.beta1 = 0, .beta2 = 0}}) {
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::kFloat64, 1e-13}, {DType::kFloat32, 4e-6}}) {
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3}, Shape{17}, Shape{33, 9}}) {
        Generator generator(1);
        const Tensor parameter = SetRequiresGrad(Tensor::Randn(shape, generator, {.dtype = dtype}));
        Reference reference(parameter.ToVector<double>(), GetParam());
        const auto optimizer = Make(parameter, options);
        for (int step = 0; step < 5; ++step) {
          SetGrad(parameter, Tensor::Randn(shape, generator, {.dtype = dtype}));
          reference.Step(options, Grad(parameter).ToVector<double>());
          optimizer->Step();
          const auto values = parameter.ToVector<double>();
          for (size_t i = 0; i < values.size(); ++i) {
            ASSERT_NEAR(values[i], reference.parameter[i], tolerance);
          }
        }
      }
    }
  }
}

TEST_P(AdamTest, ParametersWithoutGradientAreLeftAloneAndCountNoSteps) {
  const AdamOptions options = {.learning_rate = 0.1, .weight_decay = 0.5};
  const Tensor parameter = SetRequiresGrad(Tensor::Full({2}, 1, {.dtype = DType::kFloat64}));
  Reference reference(parameter.ToVector<double>(), GetParam());
  const auto optimizer = Make(parameter, options);
  optimizer->Step();
  EXPECT_THAT(parameter.ToVector<double>(), ElementsAre(1, 1));
  SetGrad(parameter, Tensor::Full({2}, 0.25, {.dtype = DType::kFloat64}));
  optimizer->Step();
  reference.Step(options, {0.25, 0.25});
  EXPECT_NEAR(parameter.ToVector<double>()[0], reference.parameter[0], 1e-15);
  optimizer->ZeroGrad();
  const auto before = parameter.ToVector<double>();
  optimizer->Step();
  EXPECT_EQ(parameter.ToVector<double>(), before);
}

TEST_P(AdamTest, RefusesOptionsThatMakeNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [&](const AdamOptions& options, const char* name, const char* value) {
    EXPECT_THAT([&] { Make(SetRequiresGrad(Tensor::Zeros({1})), options); },
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(name), HasSubstr(value))));
  };
  refused({.learning_rate = -1}, "learning_rate", "-1");
  refused({.beta1 = 1}, "beta1", "1");
  refused({.beta1 = nan}, "beta1", "nan");
  refused({.beta2 = -0.1}, "beta2", "-0.1");
  refused({.beta2 = 1.5}, "beta2", "1.5");
  refused({.epsilon = -1e-8}, "epsilon", "-1e-08");
  refused({.weight_decay = nan}, "weight_decay", "nan");
}

INSTANTIATE_TEST_SUITE_P(Both, AdamTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "AdamW" : "Adam"; });

TEST(AdamWTest, DecaysByPyTorchsDefault) {
  const Tensor parameter = SetRequiresGrad(Tensor::Full({1}, 1, {.dtype = DType::kFloat64}));
  AdamW optimizer({{"p", parameter}});
  SetGrad(parameter, Tensor::Zeros({1}, {.dtype = DType::kFloat64}));
  optimizer.Step();
  EXPECT_DOUBLE_EQ(parameter.Item(), 1 - 0.001 * 0.01);
}

}  // namespace
}  // namespace ops::optim
