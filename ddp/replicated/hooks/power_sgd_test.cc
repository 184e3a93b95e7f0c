#include "ddp/replicated/hooks/power_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/hooks/compress.h"
#include "ddp/replicated/hooks/quantize.h"
#include "ddp/replicated/hooks/testing.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Tensor;
using testing::Each;
using testing::ElementsAre;

using Values = std::vector<double>;

class PowerSgdTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PowerSgdTest, testing::Values(1, 2, 3, 4));

// What PowerSGD of rank 1 makes of one matrix, step by step, in float64, for all ranks at once.
class Reference {
 public:
  Reference(int num_ranks, int rows, int columns)
      : rows_(rows), columns_(columns), errors_(num_ranks, Values(rows * columns)) {
    ops::Generator generator(/*seed=*/0, /*stream=*/0);
    q_ = Tensor::Randn({1, columns}, generator).ToVector<double>();
  }

  // The ranks' matrices, scaled by 1 / ranks; returns what becomes of their sum.
  Values Step(std::vector<Values> matrices) {
    Normalize(q_);
    Values p(rows_), next_q(columns_), sum(rows_ * columns_);
    for (size_t rank = 0; rank < matrices.size(); ++rank) {
      for (int k = 0; k < rows_ * columns_; ++k) {
        matrices[rank][k] += errors_[rank][k];
        p[k / columns_] += matrices[rank][k] * q_[k % columns_];
      }
    }
    Normalize(p);
    for (const Values& matrix : matrices) {
      for (int k = 0; k < rows_ * columns_; ++k)
        next_q[k % columns_] += matrix[k] * p[k / columns_];
    }
    for (int k = 0; k < rows_ * columns_; ++k) sum[k] = p[k / columns_] * next_q[k % columns_];
    for (size_t rank = 0; rank < matrices.size(); ++rank) {
      for (int k = 0; k < rows_ * columns_; ++k) {
        errors_[rank][k] = matrices[rank][k] - sum[k] / matrices.size();
      }
    }
    q_ = next_q;
    return sum;
  }

 private:
  static void Normalize(Values& values) {
    double squares = 0;
    for (const double value : values) squares += value * value;
    for (double& value : values) value /= std::sqrt(squares);
  }

  const int rows_, columns_;
  Values q_;
  std::vector<Values> errors_;  // by rank
};

TEST_P(PowerSgdTest, GivesTheNumbersOfTheReference) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    GradientBucket bucket = MakeBucket({{7}, {12, 4, 5}}, DType::kFloat32);
    bucket.scale = 1.0 / rank.size();
    const Tensor vector = bucket.parts[0].tensor, matrix = bucket.parts[1].tensor;
    const CommunicationHook hook = PowerSgd({.start_step = 0});
    Reference reference(rank.size(), 12, 20);
    for (int step = 0; step < 10; ++step) {
      std::vector<Values> of_ranks;
      for (int r = 0; r < rank.size(); ++r) {
        FillParts(bucket, r, step);
        of_ranks.push_back(matrix.ToVector<double>());
      }
      Values exact = SumOfParts(bucket, rank.size(), step);
      exact.resize(7);
      FillParts(bucket, rank.rank(), step);
      hook(*group, bucket)->Wait();
      EXPECT_LT(MaxError(vector, exact), 1e-6);
      EXPECT_LT(MaxError(matrix, reference.Step(of_ranks)), 1e-3) << step;
      EXPECT_TRUE(RanksAgree(*group, bucket.gradients));
      EXPECT_THAT(bucket.gradients.Slice(7, 10).ToVector<float>(), Each(0));  // a gap
    }
  });
}

// Each rank's matrix is a product of its own [rows, rank] and the [rank, columns] of all.
void FillWithRank(const Tensor& matrix, int matrix_rank, int of_rank) {
  ops::Generator own(1, of_rank), common(2);
  const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  const std::vector<float> left = Tensor::Randn({rows, matrix_rank}, own).ToVector<float>();
  const std::vector<float> right = Tensor::Randn({matrix_rank, columns}, common).ToVector<float>();
  std::vector<float> product(rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    for (int r = 0; r < matrix_rank; ++r) {
      product[i] += left[i / columns * matrix_rank + r] * right[r * columns + i % columns];
    }
  }
  matrix.CopyFrom(Tensor::FromVector(product, matrix.shape()));
}

TEST_P(PowerSgdTest, IsExactForSumsOfLowRank) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    const GradientBucket bucket = MakeBucket({{40, 30}});
    const Tensor matrix = bucket.parts[0].tensor;
    for (int matrix_rank = 0; matrix_rank <= 3; ++matrix_rank) {
      Values exact(40 * 30);
      for (int r = 0; r < rank.size(); ++r) {
        FillWithRank(matrix, matrix_rank, r);
        const Values values = matrix.ToVector<double>();
        for (size_t i = 0; i < exact.size(); ++i) exact[i] += values[i];
      }
      const CommunicationHook hook = PowerSgd({.matrix_approximation_rank = 3, .start_step = 0});
      for (int step = 0; step < 3; ++step) {
        FillWithRank(matrix, matrix_rank, rank.rank());
        hook(*group, bucket)->Wait();
        EXPECT_LT(MaxError(matrix, exact), 1e-4) << matrix_rank << " in step " << step;
      }
    }
  });
}

TEST_P(PowerSgdTest, TheAverageOfManyStepsIsTheTrueOne) {
  RunRanks(GetParam(), [](TestRank& rank) {
    const auto group = rank.Join();
    GradientBucket bucket = MakeBucket({{8, 9}});
    bucket.scale = 1.0 / rank.size();
    const Values exact = SumOfParts(bucket, rank.size());
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      GradientBucket sent = MakeBucket({{8, 9}}, dtype);
      const CommunicationHook hook = PowerSgd({.start_step = 0});
      constexpr int kSteps = 300;
      Values mean(exact.size());
      for (int step = 0; step < kSteps; ++step) {
        FillParts(bucket, rank.rank());
        sent.gradients.CopyFrom(bucket.gradients);
        hook(*group, sent)->Wait();
        const Values sum = sent.gradients.ToVector<double>();
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += sum[i] / kSteps;
      }
      const Tensor mean_tensor = Tensor::FromVector(mean, bucket.gradients.shape());
      EXPECT_LT(MaxError(mean_tensor, exact), 0.1) << Name(dtype);  // elements are about 1
      EXPECT_TRUE(RanksAgree(*group, sent.gradients));
    }
  });
}

TEST(PowerSgd, SendsFactorsFromItsStartOn) {
  RunRanks(4, [](TestRank& rank) {
    const auto joined = rank.Join();
    CountingGroup group(*joined);
    const CommunicationHook hook = PowerSgd({.matrix_approximation_rank = 2, .start_step = 1});
    GradientBucket matrices = MakeBucket({{100, 50}, {7}, {4, 4}});  // 4 x 4 gains nothing
    GradientBucket vectors = MakeBucket({{10}});
    matrices.num_buckets = vectors.num_buckets = 2;
    vectors.index = 1;
    for (int step = 0; step < 2; ++step) {
      group.Forget();
      const auto first = hook(group, matrices), second = hook(group, vectors);
      first->Wait();
      second->Wait();
      if (step == 0) {
        EXPECT_THAT(group.calls(),
                    ElementsAre("all_reduce float32[5032]", "all_reduce float32[13]"));
      }
    }
    EXPECT_THAT(group.calls(), ElementsAre("all_reduce float32[223]", "all_reduce float32[13]",
                                           "all_reduce float32[100]"));
    EXPECT_EQ(group.bytes_sent(), 2 * 3 / 4.0 * 4 * ((7 + 16) + 2 * (100 + 50) + 13));
  });
}

TEST(PowerSgd, ComposesWithOthersOnEitherSide) {
  RunRanks(2, [](TestRank& rank) {
    const auto joined = rank.Join();
    CountingGroup group(*joined);
    const PowerSgdOptions at_once = {.start_step = 0};
    for (const auto& [hook, dtype] :
         {std::pair{CompressTo(DType::kFloat16, PowerSgd(at_once)), "all_reduce float16[{}]"},
          std::pair{PowerSgd(at_once, CompressTo(DType::kBFloat16)), "all_reduce bfloat16[{}]"},
          std::pair{PowerSgd(at_once, QuantizeTo8Bits()), "int8"}}) {
      group.Forget();
      const GradientBucket bucket = MakeBucket({{40, 30}, {5}});
      for (int step = 0; step < 2; ++step) {
        bucket.parts[0].tensor.Fill(0.5);
        bucket.parts[1].tensor.Fill(0.25);
        hook(group, bucket)->Wait();
        EXPECT_LT(MaxError(bucket.parts[0].tensor, Values(40 * 30, 1)), 0.02) << dtype;
        EXPECT_LT(MaxError(bucket.parts[1].tensor, Values(5, 0.5)), 0.02) << dtype;
        EXPECT_TRUE(RanksAgree(*joined, bucket.gradients));
      }
      if (std::string_view(dtype) == "int8") {
        EXPECT_LT(group.bytes_sent(), 2 * (45 + 30 + 2 * 2 * 4 + 1));
      } else {
        EXPECT_EQ(group.bytes_sent(), 2 * (45 + 30) * 2);
      }
    }
  });
}

TEST(PowerSgd, WhatIsNotFiniteIsNaNInThatStepOnly) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    const CommunicationHook hook = PowerSgd({.start_step = 0});
    const GradientBucket bucket = MakeBucket({{10, 10}, {3}});
    for (const float wrong :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1.0f}) {
      bucket.parts[0].tensor.Fill(1);
      bucket.parts[1].tensor.Fill(1);
      if (rank.rank() == 1) bucket.parts[0].tensor.data<float>()[17] = wrong;
      hook(*group, bucket)->Wait();
      const std::vector<float> sum = bucket.parts[0].tensor.ToVector<float>();
      if (wrong == 1) {
        EXPECT_THAT(sum, Each(testing::FloatNear(2, 1e-5)));
      } else {
        EXPECT_THAT(sum, Each(testing::IsNan()));
      }
      EXPECT_THAT(bucket.parts[1].tensor.ToVector<float>(), Each(2));
    }
  });
}

TEST(PowerSgd, WithoutErrorFeedbackWhatIsLostIsLost) {
  RunRanks(1, [](TestRank& rank) {
    const auto group = rank.Join();
    const GradientBucket bucket = MakeBucket({{10, 10}});
    const CommunicationHook hook =
        PowerSgd({.start_step = 0, .use_error_feedback = false, .warm_start = false});
    FillParts(bucket, 0);
    hook(*group, bucket)->Wait();
    bucket.gradients.FillZero();
    hook(*group, bucket)->Wait();
    EXPECT_THAT(bucket.gradients.ToVector<float>(), Each(0));
  });
}

TEST(PowerSgd, RefusesMatricesOfNoRank) {
  EXPECT_THROW(PowerSgd({.matrix_approximation_rank = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace ddp
