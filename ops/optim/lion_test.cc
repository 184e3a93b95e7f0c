#include "ops/optim/lion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ops/autograd/grad.h"

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Float64(const std::vector<double>& values) {
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size())});
}

TEST(LionTest, StepsInTheDirectionOfTheMomentumsSign) {
  const Tensor p = SetRequiresGrad(Float64({1, 1, 1}));
  Lion optimizer({{"p", p}}, {.learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.75});
  SetGrad(p, Float64({4, -0.25, 0}));
  optimizer.Step();
  EXPECT_THAT(p.ToVector<double>(), ElementsAre(0.5, 1.5, 1));
  // The momentum, 1 and -1/16 and 0, outweighs the first of these gradients only.
  SetGrad(p, Float64({-0.5, 1, -1}));
  optimizer.Step();
  EXPECT_THAT(p.ToVector<double>(), ElementsAre(0, 1, 1.5));
}

TEST(LionTest, DecaysWeights) {
  const Tensor p = SetRequiresGrad(Float64({2}));
  Lion optimizer({{"p", p}}, {.learning_rate = 0.1, .weight_decay = 0.5});
  SetGrad(p, Float64({1}));
  optimizer.Step();
  EXPECT_THAT(p.ToVector<double>(), ElementsAre(DoubleEq(2 * 0.95 - 0.1)));
}

TEST(LionTest, RefusesOptionsThatMakeNoSense) {
  const Tensor p = SetRequiresGrad(Tensor::Zeros({1}));
  const auto refused = [&](const LionOptions& options, const char* name, const char* value) {
    EXPECT_THAT(([&] {
                  Lion({{"p", p}}, options);
                }),
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(name), HasSubstr(value))));
  };
  refused({.learning_rate = -1}, "learning_rate", "-1");
  refused({.beta1 = 1}, "beta1", "1");
  refused({.beta2 = -0.5}, "beta2", "-0.5");
  refused({.weight_decay = -2}, "weight_decay", "-2");
}

}  // namespace
}  // namespace ops::optim
