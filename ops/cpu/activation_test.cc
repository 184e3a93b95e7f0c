#include "ops/cpu/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSlope = 0.125;  // of the leaky ReLU

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Case {
  Activation f;
  const char* name;
  double (*value)(double x);
  double (*slope)(double x);
};

// The formulas of ops/autograd/activations.h and their derivatives.
const Case kCases[] = {
    {Activation::kRelu, "Relu", [](double x) { return x > 0 ? x : 0; },
     [](double x) { return x > 0 ? 1.0 : 0; }},
    {Activation::kLeakyRelu, "LeakyRelu", [](double x) { return x > 0 ? x : kSlope * x; },
     [](double x) { return x > 0 ? 1 : kSlope; }},
    {Activation::kGelu, "Gelu", [](double x) { return x * std::erfc(-x / std::sqrt(2)) / 2; },
     [](double x) {
       return std::erfc(-x / std::sqrt(2)) / 2 +
              x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
     }},
    {Activation::kGeluTanh, "GeluTanh",
     [](double x) {
       return x * Sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
     },
     [](double x) {
       const double k = 2 * std::sqrt(2 / std::numbers::pi);
       const double s = Sigmoid(k * (x + 0.044715 * x * x * x));
       return s + x * s * (1 - s) * k * (1 + 3 * 0.044715 * x * x);
     }},
    {Activation::kSigmoid, "Sigmoid", Sigmoid,
     [](double x) { return Sigmoid(x) * (1 - Sigmoid(x)); }},
    {Activation::kTanh, "Tanh", [](double x) { return std::tanh(x); },
     [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }},
    {Activation::kSilu, "Silu", [](double x) { return x * Sigmoid(x); },
     [](double x) { return Sigmoid(x) * (1 + x * (1 - Sigmoid(x))); }},
};

// With room for gradients, which read a rounded y.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-14;
    case DType::kFloat32:
      return 1e-6;
    case DType::kFloat16:
      return 4e-3;
    default:
      return 3e-2;
  }
}

void ExpectNear(const Tensor& got, int64_t i, double expected) {
  const double value = got.Slice(i, i + 1).ToVector<double>()[0];
  ASSERT_NEAR(value, expected, Tolerance(got.dtype()) * (1 + std::abs(expected)))
      << "element " << i << ", " << Name(got.dtype());
}

void ExpectActivationIsRight(const Case& test, DType dtype, int64_t n) {
  const Tensor x = RandomTensor({n}, dtype, 1, 3), dy = RandomTensor({n}, dtype, 2);
  const Tensor y = Misaligned({n}, dtype), dx = Misaligned({n}, dtype);
  Activate(test.f, x, y, kSlope);
  const Tensor kept = NeedsOutput(test.f) ? y : x;
  ActivateBackward(test.f, kept, dy, dx, /*accumulate=*/false, kSlope);
  const std::vector<double> in = x.ToVector<double>(), arriving = dy.ToVector<double>();
  for (int64_t i = 0; i < n; ++i) {
    ExpectNear(y, i, test.value(in[i]));
    ExpectNear(dx, i, arriving[i] * test.slope(in[i]));
  }
  const Tensor over_dy = dy.Clone();
  ActivateBackward(test.f, kept, over_dy, over_dy, /*accumulate=*/false, kSlope);
  EXPECT_EQ(BytesOf(over_dy), BytesOf(dx));
  const std::vector<double> once = dx.ToVector<double>();
  ActivateBackward(test.f, kept, dy, dx, /*accumulate=*/true, kSlope);
  for (int64_t i = 0; i < n; ++i) ExpectNear(dx, i, 2 * once[i]);
}

TEST(ActivationTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const Case& test : kCases) {
      SCOPED_TRACE(test.name);
      for (const DType dtype : kFloatingDTypes) {
        for (const int64_t n : kLengths) ExpectActivationIsRight(test, dtype, n);
      }
    }
  });
}

// From where a function is linear to where it ends, in small steps.
Tensor Everywhere() {
  std::vector<float> values;
  for (float x = 1e-6f; x < 90; x *= 1.001f) values.insert(values.end(), {x, -x});
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size())});
}

TEST(ActivationTest, Float32IsAccurateEverywhere) {
  const Tensor x = Everywhere(), y = Tensor::Empty(x.shape());
  ForEachIsa([&] {
    for (const Case& test : kCases) {
      Activate(test.f, x, y, kSlope);
      // Of GELU's and SiLU's vanishing left ends the absolute error counts.
      const double floor = test.f == Activation::kTanh || test.f == Activation::kSigmoid ? 0 : 0.1;
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const double expected = test.value(x.data<float>()[i]);
        const double unit = 6e-8 * std::max(std::abs(expected), floor) + 1e-37;
        ASSERT_NEAR(y.data<float>()[i], expected, 6 * unit)
            << test.name << " of " << x.data<float>()[i];
      }
    }
  });
}

TEST(ActivationTest, Limits) {
  const auto limits = [](Activation f, DType dtype) {
    const std::vector<double> ends = {-kInfinity, -1e6, 1e6, kInfinity};
    const Tensor x = Tensor::FromVector(ends, {4}).To(dtype);
    Activate(f, x, x, kSlope);
    return x.ToVector<double>();
  };
  ForEachIsa([&] {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      EXPECT_THAT(limits(Activation::kRelu, dtype), ElementsAre(0, 0, 1e6, kInfinity));
      EXPECT_THAT(limits(Activation::kLeakyRelu, dtype),
                  ElementsAre(-kInfinity, -125000, 1e6, kInfinity));
      EXPECT_THAT(limits(Activation::kSigmoid, dtype), ElementsAre(0, 0, 1, 1));
      EXPECT_THAT(limits(Activation::kTanh, dtype), ElementsAre(-1, -1, 1, 1));
      for (const Activation f : {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
        const std::vector<double> y = limits(f, dtype);
        EXPECT_TRUE(std::isnan(y[0]));  // -infinity times 0, as in PyTorch
        EXPECT_THAT(std::vector(y.begin() + 1, y.end()), ElementsAre(0, 1e6, kInfinity));
      }
    }
  });
}

TEST(ActivationTest, NaNStaysNaN) {
  ForEachIsa([] {
    for (const Case& test : kCases) {
      const Tensor x = Tensor::Full({20}, NAN), dx = Tensor::Empty({20});
      ActivateBackward(test.f, x, Tensor::Full({20}, 2), dx, false, kSlope);
      Activate(test.f, x, x, kSlope);
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(std::isnan(x.data<float>()[i])) << test.name;
        // Which isn't at most 0.
        if (test.f == Activation::kRelu) {
          EXPECT_EQ(dx.data<float>()[i], 2);
        }
      }
    }
  });
}

TEST(AddReluTest, EveryDTypeAndLength) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : kLengths) {
        const Tensor a = RandomTensor({n}, dtype, 1), b = RandomTensor({n}, dtype, 2);
        const Tensor y = Misaligned({n}, dtype);
        AddRelu(a, b, y);
        const std::vector<double> x = a.ToVector<double>(), z = b.ToVector<double>();
        for (int64_t i = 0; i < n; ++i) ExpectNear(y, i, std::max(x[i] + z[i], 0.0));
      }
    }
  });
}

void ExpectSwiGluIsRight(DType dtype, int64_t n) {
  const Tensor gate = RandomTensor({n}, dtype, 1), up = RandomTensor({n}, dtype, 2);
  const Tensor dy = RandomTensor({n}, dtype, 3), y = Misaligned({n}, dtype);
  const Tensor dgate = Tensor::Zeros({n}, {dtype}), dup = Tensor::Zeros({n}, {dtype});
  SwiGlu(gate, up, y);
  const std::vector<double> g = gate.ToVector<double>(), u = up.ToVector<double>();
  const std::vector<double> arriving = dy.ToVector<double>();
  for (const bool accumulate : {false, true}) {
    SwiGluGateBackward(gate, up, dy, dgate, accumulate);
    SwiGluUpBackward(gate, dy, dup, accumulate);
    const double times = accumulate ? 2 : 1;
    for (int64_t i = 0; i < n; ++i) {
      const double sigmoid = Sigmoid(g[i]);
      ExpectNear(y, i, g[i] * sigmoid * u[i]);
      ExpectNear(dgate, i, times * arriving[i] * u[i] * sigmoid * (1 + g[i] * (1 - sigmoid)));
      ExpectNear(dup, i, times * arriving[i] * g[i] * sigmoid);
    }
  }
}

TEST(SwiGluTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t n : kLengths) ExpectSwiGluIsRight(dtype, n);
    }
  });
}

// The word that belongs to an element.
uint32_t Word(const DropoutMask& mask, int64_t i) {
  const uint64_t position = mask.first_position + static_cast<uint64_t>(i);
  return Philox(mask.seed, mask.step, position / 4)[position % 4];
}

TEST(DropoutTest, KeepsWhatPhiloxSays) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      // The last crosses what 32 bits can count.
      for (const uint64_t first :
           {uint64_t{0}, uint64_t{3}, uint64_t{257}, (uint64_t{1} << 34) - 9}) {
        const DropoutMask mask = {0.25, (uint64_t{7} << 32) + 5, (uint64_t{1} << 40) + 3, first};
        for (const int64_t n : kLengths) {
          const Tensor x = RandomTensor({n}, dtype, 1), y = Misaligned({n}, dtype);
          Dropout(x, mask, y, /*accumulate=*/false);
          const std::vector<double> in = x.ToVector<double>();
          for (int64_t i = 0; i < n; ++i) {
            ExpectNear(y, i, Word(mask, i) >= uint32_t{1} << 30 ? in[i] / 0.75 : 0);
          }
          Dropout(x, mask, y, /*accumulate=*/true);
          for (int64_t i = 0; i < n; ++i) {
            ExpectNear(y, i, Word(mask, i) >= uint32_t{1} << 30 ? in[i] / 0.375 : 0);
          }
        }
      }
    }
  });
}

TEST(DropoutTest, APartDrawsWhatTheWholeDraws) {
  const Tensor x = RandomTensor({1000}, DType::kFloat32, 1), whole = Tensor::Empty({1000});
  const Tensor parts = Tensor::Empty({1000});
  DropoutMask mask = {0.5, 1, 2, 30};
  Dropout(x, mask, whole, false);
  for (const auto& [begin, end] : {std::pair{0, 333}, std::pair{333, 334}, std::pair{334, 1000}}) {
    mask.first_position = 30 + begin;
    Dropout(x.Slice(begin, end), mask, parts.Slice(begin, end), false);
  }
  EXPECT_EQ(BytesOf(parts), BytesOf(whole));
}

TEST(DropoutTest, DropsTheFractionThatItIsTold) {
  constexpr int64_t kCount = 100000;
  const Tensor x = Tensor::Full({kCount}, 1), y = Tensor::Empty({kCount});
  for (const double probability : {0.0, 0.1, 0.5, 1.0}) {
    Dropout(x, {probability, 1, 2, 3}, y, false);
    int64_t dropped = 0;
    for (const float value : y.elements<float>()) dropped += value == 0;
    EXPECT_NEAR(static_cast<double>(dropped) / kCount, probability,
                0.01 * probability * (1 - probability) * 4);
  }
}

TEST(ActivationTest, SameBitsOnThreads) {
  const Tensor x = RandomTensor({100003}, DType::kFloat32, 1), y = Tensor::Empty({100003});
  for (const Case& test : kCases) {
    ExpectSameBitsOnThreads([&] { return Activate(test.f, x, y, kSlope), y; });
    ExpectSameBitsOnThreads(
        [&] { return ActivateBackward(test.f, x, x, y, /*accumulate=*/false, kSlope), y; });
  }
  ExpectSameBitsOnThreads([&] { return SwiGlu(x, x, y), y; });
  ExpectSameBitsOnThreads([&] { return SwiGluGateBackward(x, x, x, y, false), y; });
  ExpectSameBitsOnThreads([&] { return AddRelu(x, x, y), y; });
  ExpectSameBitsOnThreads([&] { return Dropout(x, {0.5, 1, 2, 3}, y, false), y; });
}

TEST(ActivationTest, IntegersAreRefused) {
  const Tensor x = Tensor::Zeros({3}, {.dtype = DType::kInt32});
  EXPECT_THROW(Activate(Activation::kRelu, x, x), std::invalid_argument);
}

}  // namespace
}  // namespace ops::cpu
