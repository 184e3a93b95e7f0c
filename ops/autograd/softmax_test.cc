#include "ops/autograd/softmax.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(SoftmaxTest, GradientsMatchDifferences) {
  Generator generator(1);
  for (const auto function : {Softmax, LogSoftmax}) {
    for (const Shape& shape : {Shape{1}, Shape{5}, Shape{2, 17, 3}, Shape{2, 0, 3}}) {
      for (int dim = -1; dim < shape.rank(); ++dim) {
        SCOPED_TRACE(fmt::format("{} along {}", shape.ToString(), dim));
        const auto f = [=](const std::vector<Tensor>& in) { return function(in[0], dim); };
        EXPECT_TRUE(GradientsMatch(f, {RandomLeaf(shape, generator)}));
        EXPECT_TRUE(GradientsMatch(f, {RandomLeaf(shape, generator)}, {.accumulate = true}));
      }
    }
  }
}

TEST(SoftmaxTest, OfAScalar) {
  EXPECT_EQ(Softmax(Tensor::Scalar(3)).Item(), 1);
  EXPECT_EQ(LogSoftmax(Tensor::Scalar(3), 0).Item(), 0);
}

TEST(SoftmaxTest, RefusesDimensionsThatAreNotThere) {
  EXPECT_THAT(
      [] {
        Softmax(Tensor::Zeros({2, 3}), 2);
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("Softmax: [2, 3]"), HasSubstr("dimension 2"))));
  EXPECT_THROW(LogSoftmax(Tensor::Zeros({2, 3}), -3), std::invalid_argument);
  EXPECT_THROW(Softmax(Tensor::Zeros({2}, {DType::kInt64})), std::invalid_argument);
  EXPECT_THROW(Softmax(Tensor()), std::invalid_argument);
}

}  // namespace
}  // namespace ops
