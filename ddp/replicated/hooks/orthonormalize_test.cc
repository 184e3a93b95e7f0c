#include "ddp/replicated/hooks/orthonormalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::Tensor;
using testing::ElementsAre;
using testing::FloatNear;
using testing::IsEmpty;

double Dot(const Tensor& vectors, int64_t a, int64_t b) {
  const std::vector<double> x = vectors.Slice(a, a + 1).ToVector<double>();
  const std::vector<double> y = vectors.Slice(b, b + 1).ToVector<double>();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

void ExpectOrthonormal(const Tensor& vectors) {
  for (int64_t a = 0; a < vectors.dim(0); ++a) {
    for (int64_t b = 0; b <= a; ++b) EXPECT_NEAR(Dot(vectors, a, b), a == b, 1e-6) << a << b;
  }
}

TEST(Orthonormalize, KnownVectors) {
  const Tensor vectors = Tensor::FromVector<float>({3, 4, 0, 3, 4, 2}, {2, 3});
  EXPECT_THAT(Orthonormalize(vectors), IsEmpty());
  EXPECT_THAT(vectors.ToVector<float>(),
              ElementsAre(0.6f, 0.8f, 0, FloatNear(0, 1e-6), FloatNear(0, 1e-6), 1));
}

TEST(Orthonormalize, RandomAndNearlyDependentVectors) {
  ops::Generator generator(1);
  const Tensor vectors = Tensor::Randn({5, 100}, generator);
  for (int64_t i = 0; i < 100; ++i) {  // row 3 is row 0 and a little
    vectors.data<float>()[300 + i] = vectors.data<float>()[i] + 1e-4f * (i % 7);
  }
  EXPECT_THAT(Orthonormalize(vectors), IsEmpty());
  ExpectOrthonormal(vectors);
}

TEST(Orthonormalize, DependentVectorsAndZerosVanish) {
  const Tensor vectors = Tensor::FromVector<float>({0, 0, 0, 1, 1, 1, -7, -7, -7, 0, 1, 0}, {4, 3});
  EXPECT_THAT(Orthonormalize(vectors), ElementsAre(0, 2));
  EXPECT_NEAR(Dot(vectors, 1, 1), 1, 1e-6);
  EXPECT_NEAR(Dot(vectors, 3, 3), 1, 1e-6);
  EXPECT_NEAR(Dot(vectors, 1, 3), 0, 1e-6);
  EXPECT_EQ(Dot(vectors, 0, 0) + Dot(vectors, 2, 2), 0);
}

TEST(Orthonormalize, WhatIsNotFiniteBecomesNaN) {
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Tensor vectors = Tensor::FromVector<float>({1, wrong, 1, 2}, {2, 2});
    Orthonormalize(vectors);
    EXPECT_TRUE(std::isnan(vectors.data<float>()[1]));
    EXPECT_TRUE(std::isnan(vectors.data<float>()[2]));
  }
}

TEST(Orthonormalize, EpsilonShortens) {
  const Tensor vectors = Tensor::FromVector<float>({3, 4}, {1, 2});
  Orthonormalize(vectors, 5);
  EXPECT_THAT(vectors.ToVector<float>(), ElementsAre(0.3f, 0.4f));
}

}  // namespace
}  // namespace ddp
