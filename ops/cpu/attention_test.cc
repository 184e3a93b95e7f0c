#include "ops/cpu/attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

struct Case {
  int64_t batch, time, heads, head_width;
  bool causal = true;

  int64_t width() const { return heads * head_width; }
  Shape qkv() const { return {batch, time, 3 * width()}; }
  Shape out() const { return {batch, time, width()}; }
  AttentionParameters parameters() const {
    return {heads, causal, 1 / std::sqrt(static_cast<double>(head_width))};
  }
  std::string ToString() const {
    return fmt::format("batch {}, time {}, {} heads of {}, {}", batch, time, heads, head_width,
                       causal ? "causal" : "full");
  }
};

using Values = std::vector<double>;

// One head, in float64 and with the whole matrix of probabilities.
class ReferenceHead {
 public:
  ReferenceHead(const Case& c, const Values& qkv, int64_t sequence, int64_t head)
      : c_(c), qkv_(qkv), sequence_(sequence), head_(head), probabilities_(c.time * c.time) {
    for (int64_t i = 0; i < c.time; ++i) Softmax(i);
  }

  int64_t Index(int64_t row, int64_t part, int64_t column) const {
    return ((sequence_ * c_.time + row) * 3 + part) * c_.width() + head_ * c_.head_width + column;
  }
  int64_t OutIndex(int64_t row, int64_t column) const {
    return (sequence_ * c_.time + row) * c_.width() + head_ * c_.head_width + column;
  }

  void Forward(Values& out, Values& log_sums) const {
    for (int64_t i = 0; i < c_.time; ++i) {
      log_sums.push_back(log_sums_[i]);
      for (int64_t d = 0; d < c_.head_width; ++d) {
        for (int64_t j = 0; j < c_.time; ++j) {
          out[OutIndex(i, d)] += Probability(i, j) * qkv_[Index(j, 2, d)];
        }
      }
    }
  }

  void Backward(const Values& dout, Values& dqkv) const {
    const double scale = c_.parameters().scale;
    for (int64_t i = 0; i < c_.time; ++i) {
      Values dprobability(c_.time);
      double product = 0;
      for (int64_t j = 0; j < c_.time; ++j) {
        for (int64_t d = 0; d < c_.head_width; ++d) {
          dprobability[j] += dout[OutIndex(i, d)] * qkv_[Index(j, 2, d)];
          dqkv[Index(j, 2, d)] += Probability(i, j) * dout[OutIndex(i, d)];
        }
        product += Probability(i, j) * dprobability[j];
      }
      for (int64_t j = 0; j < c_.time; ++j) {
        const double dscore = scale * Probability(i, j) * (dprobability[j] - product);
        for (int64_t d = 0; d < c_.head_width; ++d) {
          dqkv[Index(i, 0, d)] += dscore * qkv_[Index(j, 1, d)];
          dqkv[Index(j, 1, d)] += dscore * qkv_[Index(i, 0, d)];
        }
      }
    }
  }

 private:
  double Probability(int64_t i, int64_t j) const { return probabilities_[i * c_.time + j]; }

  void Softmax(int64_t i) {
    const int64_t seen = c_.causal ? i + 1 : c_.time;
    double* const row = &probabilities_[i * c_.time];
    double sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      for (int64_t d = 0; d < c_.head_width; ++d) {
        row[j] += c_.parameters().scale * qkv_[Index(i, 0, d)] * qkv_[Index(j, 1, d)];
      }
    }
    const double largest = *std::max_element(row, row + seen);
    for (int64_t j = 0; j < seen; ++j) sum += row[j] = std::exp(row[j] - largest);
    for (int64_t j = 0; j < seen; ++j) row[j] /= sum;
    log_sums_.push_back(largest + std::log(sum));
  }

  const Case& c_;
  const Values& qkv_;
  const int64_t sequence_, head_;
  Values probabilities_, log_sums_;
};

// With 10 and 7 bits behind the point, and a rounding to each when the gradient is added to.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-13;
    case DType::kFloat16:
      return 2e-3;
    case DType::kBFloat16:
      return 1.6e-2;
    default:
      return 4e-6;
  }
}

void ExpectNear(const Tensor& actual, const Values& expected, double tolerance) {
  const Values values = actual.ToVector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
}

TensorOptions SumsOptions(DType dtype) {
  return {.dtype = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32};
}

struct BothWays {
  Tensor qkv, dout, out, log_sums, dqkv;

  BothWays(const Case& c, const Tensor& qkv)
      : qkv(qkv),
        dout(RandomTensor(c.out(), qkv.dtype(), 2)),
        out(Misaligned(c.out(), qkv.dtype())),
        log_sums(Tensor::Empty({c.batch, c.heads, c.time}, SumsOptions(qkv.dtype()))),
        dqkv(Misaligned(c.qkv(), qkv.dtype())) {
    out.Fill(std::numeric_limits<double>::quiet_NaN());
    AttentionForward(qkv, out, log_sums, c.parameters());
    dqkv.Fill(std::numeric_limits<double>::quiet_NaN());
    AttentionBackward(qkv, out, log_sums, dout, dqkv, false, c.parameters());
  }
};

void ExpectAttentionIsRight(const Case& c, DType dtype) {
  SCOPED_TRACE(fmt::format("{}, {}", Name(dtype), c.ToString()));
  const Tensor qkv = RandomTensor(c.qkv(), dtype, 1);
  const Values in = qkv.ToVector<double>();
  const Values dout = RandomTensor(c.out(), dtype, 2).ToVector<double>();
  Values out(c.out().num_elements()), log_sums, dqkv(in.size());
  for (int64_t sequence = 0; sequence < c.batch; ++sequence) {
    for (int64_t head = 0; head < c.heads; ++head) {
      const ReferenceHead reference(c, in, sequence, head);
      reference.Forward(out, log_sums);
      reference.Backward(dout, dqkv);
    }
  }
  ForEachIsa([&] {
    const BothWays run(c, qkv);
    ExpectNear(run.out, out, Tolerance(dtype));
    ExpectNear(run.log_sums, log_sums, Tolerance(SumsOptions(dtype).dtype));
    ExpectNear(run.dqkv, dqkv, 4 * Tolerance(dtype));
    AttentionBackward(run.qkv, run.out, run.log_sums, run.dout, run.dqkv, true, c.parameters());
    Values twice = dqkv;
    for (double& value : twice) value *= 2;
    ExpectNear(run.dqkv, twice, 4 * Tolerance(dtype));
  });
}

TEST(AttentionTest, OutputAndGradient) {
  for (const DType dtype : kFloatingDTypes) {
    for (const bool causal : {true, false}) {
      for (const int64_t time : {1, 2, 16, 31, 32, 33, 64, 65, 100, 130}) {
        ExpectAttentionIsRight({1, time, 2, 5, causal}, dtype);
      }
      for (const int64_t head_width : {1, 3, 8, 16, 17, 64, 80}) {
        ExpectAttentionIsRight({2, 37, 3, head_width, causal}, dtype);
      }
    }
  }
}

TEST(AttentionTest, FewHeadsOfLongSequencesAndManyOfShortOnes) {
  for (const bool causal : {true, false}) {
    ExpectAttentionIsRight({1, 400, 1, 16, causal}, DType::kFloat32);
    ExpectAttentionIsRight({1, 257, 3, 8, causal}, DType::kFloat64);
    ExpectAttentionIsRight({9, 20, 4, 8, causal}, DType::kFloat32);
  }
}

TEST(AttentionTest, OfNothing) {
  const Case cases[] = {{0, 3, 2, 4}, {2, 0, 2, 4}, {2, 3, 2, 0}};
  for (const Case& c : cases) {
    const BothWays run(c, Tensor::Zeros(c.qkv()));
    EXPECT_EQ(run.dqkv.num_elements(), 0);
  }
}

// Scores of 40000 and more, whose exponential has no float32.
TEST(AttentionTest, LargeScoresNeitherOverflowNorVanish) {
  const Case c = {1, 150, 1, 1, false};
  ForEachIsa([&] {
    const Tensor qkv = Tensor::Zeros(c.qkv());
    for (int64_t t = 0; t < c.time; ++t) {
      float* const row = qkv.data<float>() + 3 * t;
      row[0] = 200, row[1] = t == 120 ? 300 : 200, row[2] = static_cast<float>(t);
    }
    const BothWays run(c, qkv);
    for (const float value : run.out.ToVector<float>()) EXPECT_EQ(value, 120);
    for (const float value : run.dqkv.ToVector<float>()) EXPECT_TRUE(std::isfinite(value));
  });
}

TEST(AttentionTest, KeysOfMinusInfinityCountNothingAndNaNIsNotHidden) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Case c = {1, 140, 1, 1, false};
  ForEachIsa([&] {
    const Tensor qkv = Tensor::Full(c.qkv(), 1);
    for (int64_t t = 0; t < 139; ++t) qkv.data<float>()[3 * t + 1] = -kInfinity;
    qkv.data<float>()[3 * 139 + 2] = 7;
    for (const float value : BothWays(c, qkv).out.ToVector<float>()) EXPECT_EQ(value, 7);
    qkv.data<float>()[3 * 70 + 1] = std::numeric_limits<float>::quiet_NaN();
    for (const float value : BothWays(c, qkv).out.ToVector<float>()) EXPECT_TRUE(std::isnan(value));
  });
}

TEST(AttentionTest, ThreadsDoNotChangeBits) {
  const Case cases[] = {{4, 100, 4, 16}, {1, 300, 2, 16}, {1, 300, 1, 8, false}};
  ForEachIsa([&] {
    for (const Case& c : cases) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const Tensor qkv = RandomTensor(c.qkv(), dtype, 1);
        ExpectSameBitsOnThreads([&] { return BothWays(c, qkv).out; });
        ExpectSameBitsOnThreads([&] { return BothWays(c, qkv).dqkv; });
      }
    }
  });
}

}  // namespace
}  // namespace ops::cpu
