#include "ops/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ops/autograd/grad.h"
#include "ops/optim/sgd.h"

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OptimizerTest, ZeroGradClearsEveryGradientAndKeepsItsPlace) {
  const Tensor a = SetRequiresGrad(Tensor::Zeros({1})), b = SetRequiresGrad(Tensor::Zeros({1}));
  Sgd optimizer({{"a", a}, {"b", b}});
  SetGrad(a, Tensor::Full({1}, 1));
  const Tensor place = GradPlace(a);
  optimizer.ZeroGrad();
  EXPECT_FALSE(Grad(a).defined());
  EXPECT_FALSE(Grad(b).defined());
  EXPECT_TRUE(GradPlace(a).IsSameAs(place));
}

TEST(OptimizerTest, RefusesWhatItCantChange) {
  EXPECT_THAT([] { Sgd({}, {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no parameters")));
  EXPECT_THAT(
      ([] {
        Sgd({{"steps", Tensor::Zeros({2}, {.dtype = DType::kInt64})}});
      }),
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("'steps'"), HasSubstr("int64[2]"))));
  Sgd optimizer({{"p", SetRequiresGrad(Tensor::Zeros({1}))}});
  EXPECT_THAT([&] { optimizer.set_learning_rate(-1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("learning_rate is -1")));
}

}  // namespace
}  // namespace ops::optim
