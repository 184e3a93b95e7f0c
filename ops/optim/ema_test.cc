#include "ops/optim/ema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ExponentialMovingAverageTest, FollowsTheFormula) {
  const Tensor p = Tensor::Full({2}, 1, {.dtype = DType::kFloat64});
  const Tensor q = Tensor::Full({3, 1}, 0);
  ExponentialMovingAverage average({{"p", p}, {"q", q}}, 0.75);
  p.Fill(5);
  q.Fill(1);
  average.Update();
  average.Update();
  ASSERT_EQ(average.averages().size(), 2u);
  EXPECT_EQ(average.averages()[0].name, "p");
  EXPECT_THAT(average.averages()[0].tensor.ToVector<double>(), Each(DoubleEq(5 - 4 * 0.75 * 0.75)));
  EXPECT_EQ(average.averages()[1].tensor.shape(), (Shape{3, 1}));
  EXPECT_THAT(average.averages()[1].tensor.ToVector<double>(), Each(DoubleEq(1 - 0.75 * 0.75)));
}

TEST(ExponentialMovingAverageTest, AveragesOfSixteenBitsAreFiner) {
  const Tensor p = Tensor::Full({1}, 1, {.dtype = DType::kBFloat16});
  ExponentialMovingAverage average({{"p", p}}, 0.999);
  p.Fill(2);
  average.Update();
  EXPECT_NEAR(average.averages()[0].tensor.Item(), 1.001, 1e-6);
}

TEST(ExponentialMovingAverageTest, DoesNotDependOnThreads) {
  const auto run = [](int num_threads) {
    cpu::ThreadPool pool(num_threads);
    const cpu::ScopedThreadPool use(&pool);
    Generator generator(1);
    const Tensor p = Tensor::Randn({100'003}, generator);
    ExponentialMovingAverage average({{"p", p}}, 0.9);
    p.CopyFrom(Tensor::Randn({100'003}, generator));
    average.Update();
    return average.averages()[0].tensor.ToVector<float>();
  };
  EXPECT_EQ(run(1), run(2));
}

TEST(ScopedAveragesTest, TheParametersAreTheAveragesUntilItEnds) {
  const Tensor p = Tensor::Full({2}, 1), q = Tensor::Full({1}, 1, {.dtype = DType::kFloat16});
  ExponentialMovingAverage average({{"p", p}, {"q", q}}, 0.5);
  p.Fill(3);
  q.Fill(2);
  average.Update();
  {
    const ScopedAverages use(average);
    EXPECT_THAT(p.ToVector<float>(), ElementsAre(2, 2));
    EXPECT_EQ(q.Item(), 1.5);
  }
  EXPECT_THAT(p.ToVector<float>(), ElementsAre(3, 3));
  EXPECT_EQ(q.Item(), 2);
}

TEST(ExponentialMovingAverageTest, RefusesWhatMakesNoSense) {
  const Tensor p = Tensor::Zeros({2});
  for (const double decay : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(([&] {
                  ExponentialMovingAverage({{"p", p}}, decay);
                }),
                ThrowsMessage<std::invalid_argument>(HasSubstr("decay")));
  }
  const NamedTensor steps = {"steps", Tensor::Zeros({2}, {.dtype = DType::kInt64})};
  EXPECT_THAT(
      [&] { ExponentialMovingAverage({steps}, 0.9); },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("'steps'"), HasSubstr("int64[2]"))));
}

}  // namespace
}  // namespace ops::optim
