#include "ops/cpu/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64};

double Tolerance(DType dtype) { return dtype == DType::kFloat32 ? 5e-7 : 1e-14; }

TEST(MseTest, LossAndGradient) {
  ForEachIsa([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t n : kLengths) {
        if (n == 0) continue;
        const Tensor x = RandomTensor({n}, dtype, 1), target = RandomTensor({n}, dtype, 2);
        const Tensor loss = Tensor::Scalar(0, {.dtype = dtype}), dx = Misaligned({n}, dtype);
        MseForward(x, target, loss);
        MseBackward(x, target, Tensor::Scalar(3, {.dtype = dtype}), dx, /*accumulate=*/false);
        const std::vector<double> a = x.ToVector<double>(), b = target.ToVector<double>();
        const std::vector<double> once = dx.ToVector<double>();
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) {
          sum += (a[i] - b[i]) * (a[i] - b[i]);
          const double expected = 6 * (a[i] - b[i]) / static_cast<double>(n);
          EXPECT_NEAR(once[i], expected, Tolerance(dtype) * std::abs(expected));
        }
        const double mean = sum / static_cast<double>(n);
        EXPECT_NEAR(loss.Item(), mean, Tolerance(dtype) * mean);
        MseBackward(x, target, Tensor::Scalar(3, {.dtype = dtype}), dx, /*accumulate=*/true);
        const std::vector<double> twice = dx.ToVector<double>();
        for (int64_t i = 0; i < n; ++i) EXPECT_EQ(twice[i], 2 * once[i]);
      }
    }
  });
}

TEST(MseTest, OfNothingIsNaN) {
  const Tensor nothing = Tensor::Empty({0}), loss = Tensor::Scalar(0);
  MseForward(nothing, nothing, loss);
  EXPECT_TRUE(std::isnan(loss.Item()));
  MseBackward(nothing, nothing, Tensor::Scalar(1), nothing, false);
}

struct CrossEntropyCase {
  Tensor logits, targets, loss, normalizer, dlogits;

  CrossEntropyCase(const Tensor& logits, const std::vector<int64_t>& targets)
      : logits(logits),
        targets(Tensor::FromVector(targets, {static_cast<int64_t>(targets.size())})),
        loss(Tensor::Scalar(0, logits.options())),
        normalizer(Tensor::Empty({logits.dim(0)}, logits.options())),
        dlogits(Misaligned(logits.shape(), logits.dtype())) {}

  void Run(bool accumulate = false) const {
    CrossEntropyForward(logits, targets, loss, normalizer);
    CrossEntropyBackward(logits, targets, normalizer, Tensor::Scalar(2, logits.options()), dlogits,
                         accumulate);
  }
};

std::vector<int64_t> SomeTargets(int64_t batch, int64_t classes) {
  std::vector<int64_t> targets(batch);
  for (int64_t i = 0; i < batch; ++i) targets[i] = (i * 7 + 3) % classes;
  return targets;
}

void ExpectCrossEntropyIsRight(DType dtype, int64_t batch, int64_t classes) {
  SCOPED_TRACE(std::to_string(batch) + " x " + std::to_string(classes));
  const std::vector<int64_t> targets = SomeTargets(batch, classes);
  const CrossEntropyCase test(RandomTensor({batch, classes}, dtype, 1, 3), targets);
  test.Run();
  const std::vector<double> logits = test.logits.ToVector<double>();
  const std::vector<double> gradient = test.dlogits.ToVector<double>();
  double total = 0;
  for (int64_t i = 0; i < batch; ++i) {
    const double* row = &logits[i * classes];
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(row[j]);
    total += std::log(sum) - row[targets[i]];
    for (int64_t j = 0; j < classes; ++j) {
      const double expected =
          2 * (std::exp(row[j]) / sum - (j == targets[i])) / static_cast<double>(batch);
      EXPECT_NEAR(gradient[i * classes + j], expected, Tolerance(dtype) / batch * 4);
    }
  }
  EXPECT_NEAR(test.loss.Item(), total / static_cast<double>(batch), 2 * Tolerance(dtype));
  test.Run(/*accumulate=*/true);
  const std::vector<double> twice = test.dlogits.ToVector<double>();
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(twice[i], 2 * gradient[i], Tolerance(dtype));
  }
}

TEST(CrossEntropyTest, LossAndGradient) {
  ForEachIsa([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t batch : {1, 3, 64}) {
        for (const int64_t classes : {1, 3, 10, 16, 17, 64, 1000}) {
          ExpectCrossEntropyIsRight(dtype, batch, classes);
        }
      }
    }
  });
}

TEST(CrossEntropyTest, LargeLogitsNeitherOverflowNorVanish) {
  ForEachIsa([] {
    for (const DType dtype : kDTypes) {
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
    for (const DType dtype : kDTypes) {
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

TEST(CrossEntropyTest, ATargetOutsideTheClassesNamesRowAndValue) {
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{-100}}) {
    const CrossEntropyCase test(Tensor::Zeros({4, 3}), {0, 2, bad, 1});
    const std::string expected = "row 2 is " + std::to_string(bad) + ", expected a class in [0, 3)";
    try {
      test.Run();
      FAIL();
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(expected));
    }
    EXPECT_THROW(CountCorrect(test.logits, test.targets), std::invalid_argument);
  }
}

TEST(CrossEntropyTest, AnEmptyBatchIsNaN) {
  const CrossEntropyCase test(Tensor::Zeros({0, 3}), {});
  test.Run();
  EXPECT_TRUE(std::isnan(test.loss.Item()));
  EXPECT_EQ(CountCorrect(test.logits, test.targets), 0);
}

TEST(CountCorrectTest, TheFirstOfEqualsWins) {
  const Tensor logits = Tensor::FromVector<float>({1, 5, 5, 9, 2, 3, 0, 0, 0}, {3, 3});
  EXPECT_EQ(CountCorrect(logits, Tensor::FromVector<int64_t>({1, 0, 0}, {3})), 3);
  EXPECT_EQ(CountCorrect(logits, Tensor::FromVector<int64_t>({2, 0, 1}, {3})), 1);
}

TEST(LossTest, ThreadsDoNotChangeBits) {
  const Tensor x = RandomTensor({700, 130}, DType::kFloat32, 1);
  const Tensor target = RandomTensor({700, 130}, DType::kFloat32, 2);
  ForEachIsa([&] {
    ExpectSameBitsOnThreads([&] {
      const Tensor loss = Tensor::Scalar(0);
      MseForward(x, target, loss);
      return loss;
    });
    ExpectSameBitsOnThreads([&] {
      const Tensor dx = Tensor::Empty(x.shape());
      MseBackward(x, target, Tensor::Scalar(1), dx, false);
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
