#include "ops/nn/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace ops::nn::init {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Distribution = std::function<double(double)>;

// Sample of `values` against a distribution function (Kolmogorov and Smirnov), mean and variance.
// The seed is fixed; each limit would be exceeded by less than one seed in a thousand.
void ExpectDistribution(const Tensor& tensor, const Distribution& cdf, double mean,
                        double variance) {
  std::vector<double> values = tensor.ToVector<double>();
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  double distance = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]), rank = static_cast<double>(i);
    distance = std::max({distance, expected - rank / n, (rank + 1) / n - expected});
    sum += values[i];
    squares += (values[i] - mean) * (values[i] - mean);
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(n));
  EXPECT_NEAR(sum / n, mean, 3.3 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 3.3 * variance * std::sqrt(2 / n));
}

void ExpectUniform(const Tensor& tensor, double low, double high) {
  const auto values = tensor.ToVector<double>();
  EXPECT_GE(std::ranges::min(values), low);
  EXPECT_LE(std::ranges::max(values), high);
  ExpectDistribution(
      tensor, [=](double x) { return (x - low) / (high - low); }, (low + high) / 2,
      (high - low) * (high - low) / 12);
}

void ExpectNormal(const Tensor& tensor, double mean, double deviation) {
  ExpectDistribution(
      tensor,
      [=](double x) { return std::erfc(-(x - mean) / deviation / std::numbers::sqrt2) / 2; }, mean,
      deviation * deviation);
}

class InitTest : public testing::Test {
 protected:
  // Convolution weights: fan-in 50 * 9, fan-out 100 * 9.
  const Tensor tensor_ = Tensor::Empty({100, 50, 3, 3}, {.dtype = DType::kFloat64});
  const double fan_in_ = 450, fan_out_ = 900;
  Generator generator_{11};
};

TEST_F(InitTest, UniformAndNormal) {
  Uniform(tensor_, -1, 3, generator_);
  ExpectUniform(tensor_, -1, 3);
  Normal(tensor_, 5, 0.1, generator_);
  ExpectNormal(tensor_, 5, 0.1);
  Constant(tensor_, 2.5);
  EXPECT_THAT(tensor_.ToVector<double>(), Each(2.5));
}

TEST_F(InitTest, Xavier) {
  XavierUniform(tensor_, generator_);
  const double bound = std::sqrt(6 / (fan_in_ + fan_out_));
  ExpectUniform(tensor_, -bound, bound);
  XavierUniform(tensor_, generator_, /*gain=*/2);
  ExpectUniform(tensor_, -2 * bound, 2 * bound);
  XavierNormal(tensor_, generator_, /*gain=*/2);
  ExpectNormal(tensor_, 0, 2 * std::sqrt(2 / (fan_in_ + fan_out_)));
}

TEST_F(InitTest, Kaiming) {
  KaimingUniform(tensor_, generator_);
  const double bound = std::sqrt(6 / fan_in_);
  ExpectUniform(tensor_, -bound, bound);
  KaimingNormal(tensor_, generator_);
  ExpectNormal(tensor_, 0, std::sqrt(2 / fan_in_));
  KaimingUniform(tensor_, generator_, std::sqrt(5.0));
  ExpectUniform(tensor_, -1 / std::sqrt(fan_in_), 1 / std::sqrt(fan_in_));
}

TEST_F(InitTest, OfAMatrixFanInIsTheSecondExtent) {
  const Tensor weight = Tensor::Empty({30, 1000});
  KaimingUniform(weight, generator_);
  ExpectUniform(weight, -std::sqrt(6e-3), std::sqrt(6e-3));
}

TEST_F(InitTest, RefusesWhatHasNoFans) {
  EXPECT_THAT([&] { KaimingUniform(Tensor::Zeros({5}), generator_); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("KaimingUniform"), HasSubstr("float32[5]"))));
  EXPECT_THROW(XavierNormal(Tensor::Zeros({}), generator_), std::invalid_argument);
  EXPECT_THROW(Uniform(Tensor::Zeros({5}, {.dtype = DType::kInt32}), 0, 1, generator_),
               std::invalid_argument);
}

}  // namespace
}  // namespace ops::nn::init
