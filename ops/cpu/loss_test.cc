#include "ops/cpu/loss.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

// Of values near 1: float16 and bfloat16 have 10 and 7 bits behind the point.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-14;
    case DType::kFloat16:
      return 1e-3;
    case DType::kBFloat16:
      return 8e-3;
    default:
      return 5e-7;
  }
}

constexpr double kDelta = 0.7;  // of Huber's loss

struct ElementCase {
  ElementLoss kind;
  double (*value)(double x, double target);
  double (*slope)(double x, double target);
};

const ElementCase kElementCases[] = {
    {ElementLoss::kSquared, [](double x, double t) { return (x - t) * (x - t); },
     [](double x, double t) { return 2 * (x - t); }},
    {ElementLoss::kAbsolute, [](double x, double t) { return std::abs(x - t); },
     [](double x, double t) { return double(x > t) - double(x < t); }},
    {ElementLoss::kHuber,
     [](double x, double t) {
       const double d = std::abs(x - t);
       return d <= kDelta ? 0.5 * d * d : kDelta * (d - 0.5 * kDelta);
     },
     [](double x, double t) { return std::clamp(x - t, -kDelta, kDelta); }},
    {ElementLoss::kLogistic, [](double x, double t) { return std::log1p(std::exp(x)) - t * x; },
     [](double x, double t) { return 1 / (1 + std::exp(-x)) - t; }},
    {ElementLoss::kLogisticTarget,
     [](double x, double t) { return std::log1p(std::exp(x)) - t * x; },
     [](double x, double) { return -x; }},
};

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

void ExpectElementLossIsRight(const ElementCase& c, DType dtype, int64_t n) {
  const Tensor x = RandomTensor({n}, dtype, 1, 3), target = RandomTensor({n}, dtype, 2);
  const std::vector<double> a = x.ToVector<double>(), b = target.ToVector<double>();
  std::vector<double> values(n), slopes(n), weighted(n), twice(n);
  for (int64_t i = 0; i < n; ++i) {
    values[i] = c.value(a[i], b[i]);
    slopes[i] = 3 * 0.5 * c.slope(a[i], b[i]);
    weighted[i] = b[i] * c.slope(a[i], b[i]);
    twice[i] = 2 * slopes[i];
  }
  const double tolerance = 4 * Tolerance(dtype);
  const Tensor sum = Tensor::Empty({}, {.dtype = dtype}), each = Misaligned({n}, dtype);
  const Tensor dx = Misaligned({n}, dtype);
  ElementLossForward(c.kind, x, target, sum, 0.5, kDelta);
  const double total = 0.5 * std::accumulate(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(sum.Item(), total, tolerance * (1 + std::abs(total)));
  ElementLossForward(c.kind, x, target, each, 1, kDelta);
  ExpectNear(each.ToVector<double>(), values, tolerance);
  ElementLossBackward(c.kind, x, target, Tensor::Scalar(3, {.dtype = dtype}), 0.5, dx, false,
                      kDelta);
  ExpectNear(dx.ToVector<double>(), slopes, tolerance);
  ElementLossBackward(c.kind, x, target, Tensor::Scalar(3, {.dtype = dtype}), 0.5, dx, true,
                      kDelta);
  ExpectNear(dx.ToVector<double>(), twice, tolerance);
  ElementLossBackward(c.kind, x, target, target, 1, dx, false, kDelta);
  ExpectNear(dx.ToVector<double>(), weighted, tolerance);
}

TEST(ElementLossTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const ElementCase& c : kElementCases) {
      for (const DType dtype : kFloatingDTypes) {
        for (const int64_t n : kLengths) {
          SCOPED_TRACE(fmt::format("loss {}, {}, {}", static_cast<int>(c.kind), Name(dtype), n));
          ExpectElementLossIsRight(c, dtype, n);
        }
      }
    }
  });
}

TEST(ElementLossTest, LogisticLossOfLargeInputsIsExact) {
  ForEachIsa([] {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      const auto tensor = [&](std::vector<float> values) {
        return Tensor::FromVector(values, {6}).To(dtype);
      };
      const Tensor x = tensor({1000, 1000, -1000, -1000, 3e38f, -3e38f});
      const Tensor target = tensor({0, 1, 0, 1, 1, 0});
      const Tensor loss = Tensor::Empty({6}, x.options()), dx = loss.Clone();
      ElementLossForward(ElementLoss::kLogistic, x, target, loss, 1);
      EXPECT_EQ(loss.ToVector<float>(), (std::vector<float>{1000, 0, 0, 1000, 0, 0}));
      const Tensor one = Tensor::Scalar(1, x.options());
      ElementLossBackward(ElementLoss::kLogistic, x, target, one, 1, dx, false);
      EXPECT_EQ(dx.ToVector<float>(), (std::vector<float>{1, 0, 0, -1, 0, 0}));
    }
  });
}

TEST(ElementLossTest, NaNIsNotHidden) {
  const Tensor nan = Tensor::Full({1}, std::numeric_limits<double>::quiet_NaN());
  const Tensor zero = Tensor::Zeros({1}), loss = Tensor::Scalar(0);
  ForEachIsa([&] {
    for (const ElementCase& c : kElementCases) {
      ElementLossForward(c.kind, nan, zero, loss, 1);
      EXPECT_TRUE(std::isnan(loss.Item()));
      ElementLossForward(c.kind, zero, nan, loss, 1);
      EXPECT_TRUE(std::isnan(loss.Item()));
    }
  });
}

struct CrossEntropyCase {
  Tensor logits, targets, loss, log_sums, dlogits;
  CrossEntropyParameters parameters;

  CrossEntropyCase(const Tensor& logits, const std::vector<int64_t>& targets)
      : logits(logits),
        targets(Tensor::FromVector(targets, {static_cast<int64_t>(targets.size())})),
        loss(Tensor::Scalar(0, logits.options())),
        log_sums(
            Tensor::Empty({logits.dim(0)},
                          {logits.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32})),
        dlogits(Misaligned(logits.shape(), logits.dtype())) {}

  // The mean over all rows; a gradient of 2 arrives.
  void Run(bool accumulate = false) const {
    const double factor = 1.0 / static_cast<double>(logits.dim(0));
    CrossEntropyForward(logits, targets, loss, log_sums, factor, parameters);
    CrossEntropyBackward(logits, targets, log_sums, Tensor::Scalar(2, logits.options()), factor,
                         dlogits, accumulate, parameters);
  }
};

std::vector<int64_t> SomeTargets(int64_t batch, int64_t classes) {
  std::vector<int64_t> targets(batch);
  for (int64_t i = 0; i < batch; ++i) targets[i] = (i * 7 + 3) % classes;
  return targets;
}

struct RowsReference {
  std::vector<double> losses, gradients;
};

RowsReference ReferenceOf(const CrossEntropyCase& test) {
  const int64_t batch = test.logits.dim(0), classes = test.logits.dim(1);
  const double smoothing = test.parameters.label_smoothing, each = smoothing / classes;
  const std::vector<double> logits = test.logits.ToVector<double>();
  RowsReference reference{std::vector<double>(batch), std::vector<double>(logits.size())};
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t target = test.targets.data<int64_t>()[i];
    if (target == test.parameters.ignore_index) continue;
    const double* row = &logits[i * classes];
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(row[j]);
    for (int64_t j = 0; j < classes; ++j) {
      const double weight = (1 - smoothing) * (j == target) + each;
      reference.losses[i] += weight * (std::log(sum) - row[j]);
      reference.gradients[i * classes + j] = std::exp(row[j]) / sum - weight;
    }
  }
  return reference;
}

std::vector<double> Times(double factor, std::vector<double> values) {
  for (double& value : values) value *= factor;
  return values;
}

void ExpectCrossEntropyIsRight(const CrossEntropyCase& test) {
  const DType dtype = test.logits.dtype();
  const double batch = static_cast<double>(test.logits.dim(0));
  const RowsReference expected = ReferenceOf(test);
  const double tolerance = 4 * Tolerance(dtype);
  test.Run();
  const double total = std::accumulate(expected.losses.begin(), expected.losses.end(), 0.0);
  EXPECT_NEAR(test.loss.Item(), total / batch, tolerance * (1 + total / batch));
  ExpectNear(test.dlogits.ToVector<double>(), Times(2 / batch, expected.gradients), tolerance);
  test.Run(/*accumulate=*/true);
  ExpectNear(test.dlogits.ToVector<double>(), Times(4 / batch, expected.gradients), tolerance);

  const Tensor each = Misaligned({test.logits.dim(0)}, dtype);
  CrossEntropyForward(test.logits, test.targets, each, test.log_sums, 1, test.parameters);
  ExpectNear(each.ToVector<double>(), expected.losses, tolerance);
  each.Fill(0.5);
  CrossEntropyBackward(test.logits, test.targets, test.log_sums, each, 1, test.dlogits, false,
                       test.parameters);
  ExpectNear(test.dlogits.ToVector<double>(), Times(0.5, expected.gradients), tolerance);
}

TEST(CrossEntropyTest, LossAndGradient) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t batch : {1, 3, 64}) {
        for (const int64_t classes : {1, 3, 10, 16, 17, 64, 1000}) {
          SCOPED_TRACE(fmt::format("{}[{}, {}]", Name(dtype), batch, classes));
          CrossEntropyCase test(RandomTensor({batch, classes}, dtype, 1, 3),
                                SomeTargets(batch, classes));
          ExpectCrossEntropyIsRight(test);
          test.parameters = {.ignore_index = 0, .label_smoothing = 0.1};
          ExpectCrossEntropyIsRight(test);
        }
      }
    }
  });
}

TEST(CrossEntropyTest, LargeLogitsNeitherOverflowNorVanish) {
  ForEachIsa([] {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      const auto logits = Tensor::FromVector<float>({1e4f, 0, -1e4f, 3e38f, -3e38f, 0}, {2, 3});
      const CrossEntropyCase test(logits.To(dtype), {0, 0});
      test.Run();
      EXPECT_EQ(test.loss.Item(), 0);
      for (const double value : test.dlogits.ToVector<double>()) EXPECT_EQ(value, 0);
      const CrossEntropyCase wrong(Tensor::FromVector<float>({100, 0}, {1, 2}).To(dtype), {1});
      wrong.Run();
      EXPECT_NEAR(wrong.loss.Item(), 100, 1e-5);
      EXPECT_EQ(wrong.dlogits.ToVector<double>()[1], -2);
    }
  });
}

TEST(CrossEntropyTest, GradientsOfLargeLogitsAreExact) {
  ForEachIsa([] {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      for (const float offset : {1e5f, 0x1p24f, -0x1p24f}) {
        const auto logits = Tensor::FromVector<float>({offset, offset}, {1, 2});
        const CrossEntropyCase test(logits.To(dtype), {0});
        test.Run();
        EXPECT_NEAR(test.loss.Item(), std::log(2), 1e-6);
        EXPECT_NEAR(test.dlogits.ToVector<double>()[0], -1, 1e-6);  // 2 (1/2 - 1)
        EXPECT_NEAR(test.dlogits.ToVector<double>()[1], 1, 1e-6);
      }
    }
  });
}

TEST(CrossEntropyTest, NaNAndInfinityAreNotHidden) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  ForEachIsa([&] {
    for (const float bad : {kNaN, kInfinity}) {
      const Tensor logits = Tensor::Zeros({1, 20});
      logits.data<float>()[17] = bad;
      const CrossEntropyCase test(logits, {0});
      test.Run();
      EXPECT_TRUE(std::isnan(test.loss.Item())) << bad;
    }
    // A class that is ruled out has no part in the sum.
    const CrossEntropyCase test(Tensor::FromVector<float>({0, -kInfinity, 0}, {1, 3}), {0});
    test.Run();
    EXPECT_FLOAT_EQ(test.loss.Item(), std::log(2.0f));
    EXPECT_EQ(test.dlogits.ToVector<float>(), (std::vector<float>{-1, 0, 1}));
  });
}

TEST(CountTargetsTest, LeavesOutIgnoredRowsAndNamesWrongOnes) {
  const auto targets = [](int64_t value) {
    return Tensor::FromVector<int64_t>({0, 2, value, 1}, {4});
  };
  EXPECT_EQ(CountTargets(targets(2), 3, -100), 4);
  EXPECT_EQ(CountTargets(targets(-100), 3, -100), 3);
  EXPECT_EQ(CountTargets(targets(1), 3, 1), 2);
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{-100}}) {
    const std::string expected = fmt::format("row 2 is {}, expected a class in [0, 3)", bad);
    try {
      CountTargets(targets(bad), 3, -99);
      FAIL();
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(expected));
    }
  }
}

TEST(CrossEntropyTest, AnEmptyBatchIsNaN) {
  const CrossEntropyCase test(Tensor::Zeros({0, 3}), {});
  test.Run();
  EXPECT_TRUE(std::isnan(test.loss.Item()));
}

TEST(LossTest, ThreadsDoNotChangeBits) {
  const Tensor x = RandomTensor({700, 130}, DType::kFloat32, 1);
  const Tensor target = RandomTensor({700, 130}, DType::kFloat32, 2);
  ForEachIsa([&] {
    ExpectSameBitsOnThreads([&] {
      const Tensor loss = Tensor::Scalar(0);
      ElementLossForward(ElementLoss::kHuber, x, target, loss, 1);
      return loss;
    });
    ExpectSameBitsOnThreads([&] {
      const Tensor dx = Tensor::Empty(x.shape());
      ElementLossBackward(ElementLoss::kHuber, x, target, Tensor::Scalar(1), 1, dx, false);
      return dx;
    });
    const CrossEntropyCase test(x, SomeTargets(700, 130));
    ExpectSameBitsOnThreads([&] {
      test.Run();
      return test.loss.Clone();
    });
    ExpectSameBitsOnThreads([&] {
      test.Run();
      return test.dlogits.Clone();
    });
  });
}

}  // namespace
}  // namespace ops::cpu
