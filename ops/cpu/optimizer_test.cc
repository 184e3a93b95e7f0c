#include "ops/cpu/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64};
constexpr int kSteps = 5;

double Tolerance(DType dtype) { return dtype == DType::kFloat32 ? 1e-6 : 1e-14; }

void ExpectNear(const Tensor& tensor, const std::vector<double>& expected) {
  const std::vector<double> values = tensor.ToVector<double>();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], Tolerance(tensor.dtype()) * (1 + std::abs(expected[i])));
  }
}

// Some steps against the formulas in float64, each with another gradient.
void ExpectSgdIsRight(DType dtype, int64_t n, SgdStepOptions options) {
  const Tensor parameter = RandomTensor({n}, dtype, 1), buffer = Misaligned({n}, dtype);
  buffer.Fill(std::nan(""));  // must not be read before it is written
  std::vector<double> p = parameter.ToVector<double>(), velocity(n);
  for (int step = 0; step < kSteps; ++step) {
    const Tensor gradient = RandomTensor({n}, dtype, 100 + step);
    const std::string gradient_before = BytesOf(gradient);
    options.first_step = step == 0;
    SgdStep(parameter, gradient, options.momentum == 0 ? Tensor() : buffer, options);
    const std::vector<double> g = gradient.ToVector<double>();
    for (int64_t i = 0; i < n; ++i) {
      const double decayed = g[i] + options.weight_decay * p[i];
      velocity[i] = step == 0 ? decayed : options.momentum * velocity[i] + decayed;
      p[i] -= options.learning_rate * (options.momentum == 0 ? decayed : velocity[i]);
    }
    EXPECT_EQ(BytesOf(gradient), gradient_before);
  }
  ExpectNear(parameter, p);
  if (options.momentum != 0) ExpectNear(buffer, velocity);
}

TEST(SgdTest, MomentumAndWeightDecay) {
  ForEachIsa([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t n : kLengths) {
        for (const double momentum : {0.0, 0.9}) {
          for (const double weight_decay : {0.0, 0.1}) {
            ExpectSgdIsRight(
                dtype, n,
                {.learning_rate = 0.1, .momentum = momentum, .weight_decay = weight_decay});
          }
        }
      }
    }
  });
}

void ExpectAdamIsRight(DType dtype, int64_t n, AdamStepOptions options) {
  const Tensor parameter = RandomTensor({n}, dtype, 1);
  const Tensor first = Misaligned({n}, dtype), second = Misaligned({n}, dtype);
  first.FillZero();
  second.FillZero();
  const double lr = options.learning_rate, decay = options.weight_decay;
  std::vector<double> p = parameter.ToVector<double>(), m(n), v(n);
  for (int step = 1; step <= kSteps; ++step) {
    const Tensor gradient = RandomTensor({n}, dtype, 100 + step);
    options.step = step;
    AdamStep(parameter, gradient, first, second, options);
    const std::vector<double> arrived = gradient.ToVector<double>();
    for (int64_t i = 0; i < n; ++i) {
      if (options.decoupled_weight_decay) p[i] *= 1 - lr * decay;
      const double g = arrived[i] + (options.decoupled_weight_decay ? 0 : decay * p[i]);
      m[i] = options.beta1 * m[i] + (1 - options.beta1) * g;
      v[i] = options.beta2 * v[i] + (1 - options.beta2) * g * g;
      p[i] -= lr * (m[i] / (1 - std::pow(options.beta1, step))) /
              (std::sqrt(v[i] / (1 - std::pow(options.beta2, step))) + options.epsilon);
    }
  }
  ExpectNear(parameter, p);
  ExpectNear(first, m);
  ExpectNear(second, v);
}

TEST(AdamTest, CoupledAndDecoupledWeightDecay) {
  ForEachIsa([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t n : kLengths) {
        for (const double weight_decay : {0.0, 0.1}) {
          for (const bool decoupled : {false, true}) {
            ExpectAdamIsRight(dtype, n,
                              {.learning_rate = 0.01,
                               .epsilon = 1e-3,  // large enough to show where it is added
                               .weight_decay = weight_decay,
                               .decoupled_weight_decay = decoupled});
          }
        }
      }
    }
  });
}

TEST(AdamTest, AGradientOfZeroDividesByEpsilonAlone) {
  ForEachIsa([] {
    const Tensor p = Tensor::Full({17}, 1), zero = Tensor::Zeros({17});
    AdamStep(p, zero, Tensor::Zeros({17}), Tensor::Zeros({17}), {.learning_rate = 0.1});
    for (const float value : p.ToVector<float>()) EXPECT_EQ(value, 1);
  });
}

TEST(OptimizerTest, ThreadsAndInstructionSetsDoNotChangeBits) {
  constexpr int64_t kCount = 200'003;
  const Tensor start = RandomTensor({kCount}, DType::kFloat32, 1);
  const Tensor gradient = RandomTensor({kCount}, DType::kFloat32, 2);
  std::string sgd_bits, adam_bits;
  ForEachIsa([&] {
    const auto sgd = [&] {
      const Tensor p = start.Clone(), buffer = start.Clone();
      SgdStep(p, gradient, buffer, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
      return p;
    };
    const auto adam = [&] {
      const Tensor p = start.Clone(), first = start.Clone(), second = Tensor::Zeros({kCount});
      AdamStep(p, gradient, first, second, {.learning_rate = 0.1, .weight_decay = 0.1, .step = 3});
      return p;
    };
    ExpectSameBitsOnThreads(sgd);
    ExpectSameBitsOnThreads(adam);
    if (sgd_bits.empty()) sgd_bits = BytesOf(sgd());
    if (adam_bits.empty()) adam_bits = BytesOf(adam());
    EXPECT_TRUE(BytesOf(sgd()) == sgd_bits);
    EXPECT_TRUE(BytesOf(adam()) == adam_bits);
  });
}

// Elements may move to other places of a bucket, or to other chunks: their results must not.
TEST(OptimizerTest, AnElementsPlaceDoesNotChangeItsBits) {
  const Tensor p = RandomTensor({100}, DType::kFloat32, 1);
  const Tensor gradient = RandomTensor({100}, DType::kFloat32, 2);
  ForEachIsa([&] {
    const Tensor whole = p.Clone(), parts = p.Clone();
    const SgdStepOptions options = {.learning_rate = 0.1, .weight_decay = 0.1};
    SgdStep(whole, gradient, {}, options);
    SgdStep(parts.Slice(0, 3), gradient.Slice(0, 3), {}, options);
    SgdStep(parts.Slice(3, 100), gradient.Slice(3, 100), {}, options);
    EXPECT_TRUE(BytesOf(whole) == BytesOf(parts));
  });
}

}  // namespace
}  // namespace ops::cpu
