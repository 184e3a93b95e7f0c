#include "ops/cpu/normalization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

using Doubles = std::vector<double>;

// Of values around 1, some times larger.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-13;
    case DType::kFloat32:
      return 2e-6;
    case DType::kFloat16:
      return 2e-3;
    default:
      return 1.6e-2;
  }
}

void ExpectNear(const Tensor& got, const Doubles& expected, const char* what) {
  const Doubles values = got.ToVector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], Tolerance(got.dtype()) * (1 + std::abs(expected[i])))
        << what << ", element " << i << ", " << Name(got.dtype());
  }
}

Doubles Twice(Doubles values) {
  for (double& value : values) value *= 2;
  return values;
}

// The formulas, term by term. `set_of(i)` numbers the elements that are normalised together,
// `parameter_of(i)` the weights.
struct Reference {
  Doubles y, dx, dweight, dbias, means, variances;

  template <class SetOf, class ParameterOf>
  Reference(const Doubles& x, const Doubles& weight, const Doubles& bias, const Doubles& dy,
            int64_t sets, double epsilon, bool centered, SetOf set_of, ParameterOf parameter_of)
      : y(x.size()),
        dx(x.size()),
        dweight(weight.size()),
        dbias(weight.size()),
        means(sets),
        variances(sets) {
    Doubles counts(sets), g_means(sets), gz_means(sets);
    for (size_t i = 0; i < x.size(); ++i) counts[set_of(i)] += 1;
    for (size_t i = 0; i < x.size() && centered; ++i) means[set_of(i)] += x[i] / counts[set_of(i)];
    for (size_t i = 0; i < x.size(); ++i) {
      variances[set_of(i)] += std::pow(x[i] - means[set_of(i)], 2) / counts[set_of(i)];
    }
    const auto inverse = [&](size_t i) { return 1 / std::sqrt(variances[set_of(i)] + epsilon); };
    const auto z = [&](size_t i) { return (x[i] - means[set_of(i)]) * inverse(i); };
    for (size_t i = 0; i < x.size(); ++i) {
      const double g = dy[i] * weight[parameter_of(i)], n = counts[set_of(i)];
      y[i] = z(i) * weight[parameter_of(i)] + bias[parameter_of(i)];
      dweight[parameter_of(i)] += dy[i] * z(i);
      dbias[parameter_of(i)] += dy[i];
      g_means[set_of(i)] += centered ? g / n : 0;
      gz_means[set_of(i)] += g * z(i) / n;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double g = dy[i] * weight[parameter_of(i)];
      dx[i] = inverse(i) * (g - g_means[set_of(i)] - z(i) * gz_means[set_of(i)]);
    }
  }
};

// Tensors of one call.
struct Case {
  Case(const Shape& shape, const Shape& parameters, int64_t sets, DType dtype)
      : x(RandomTensor(shape, dtype, 1)),
        weight(RandomTensor(parameters, dtype, 2)),
        bias(RandomTensor(parameters, dtype, 3)),
        dy(RandomTensor(shape, dtype, 4)),
        y(Misaligned(shape, dtype)),
        dx(Misaligned(shape, dtype)),
        dweight(Misaligned(parameters, dtype)),
        dbias(Misaligned(parameters, dtype)),
        statistics(Tensor::Empty({2, sets}, {DType::kFloat64})) {}

  template <class SetOf, class ParameterOf>
  Reference Expected(bool centered, SetOf set_of, ParameterOf parameter_of) const {
    return {x.ToVector<double>(),
            weight.ToVector<double>(),
            bias.ToVector<double>(),
            dy.ToVector<double>(),
            statistics.dim(1),
            kEpsilon,
            centered,
            set_of,
            parameter_of};
  }

  // backward(dx, dweight, dbias) overwrites, adds, and writes over dy.
  template <class Backward>
  void ExpectGradients(const Reference& expected, Backward backward) const {
    backward(GradientPlace{dx}, GradientPlace{dweight}, GradientPlace{dbias});
    ExpectNear(dx, expected.dx, "dx");
    ExpectNear(dweight, expected.dweight, "dweight");
    ExpectNear(dbias, expected.dbias, "dbias");
    backward(GradientPlace{dx, true}, GradientPlace{dweight, true}, GradientPlace{dbias, true});
    ExpectNear(dx, Twice(expected.dx), "twice dx");
    ExpectNear(dweight, Twice(expected.dweight), "twice dweight");
    ExpectNear(dbias, Twice(expected.dbias), "twice dbias");
    backward(GradientPlace{dy}, GradientPlace{}, GradientPlace{dbias});
    ExpectNear(dy, expected.dx, "dx over dy");
    ExpectNear(dbias, expected.dbias, "dbias alone");
  }

  static constexpr double kEpsilon = 1e-3;
  Tensor x, weight, bias, dy, y, dx, dweight, dbias, statistics;
};

std::string NameOf(const Shape& shape, DType dtype) {
  return shape.ToString() + " " + std::string(Name(dtype));
}

void ExpectRowsAreRight(const Shape& shape, DType dtype, bool centered) {
  SCOPED_TRACE(NameOf(shape, dtype));
  const int64_t width = shape[1];
  const Case test(shape, {width}, shape[0], dtype);
  const Reference expected = test.Expected(
      centered, [=](size_t i) { return i / width; }, [=](size_t i) { return i % width; });
  NormalizeRows(test.x, test.weight, test.bias, centered, Case::kEpsilon, test.y, test.statistics);
  ExpectNear(test.y, expected.y, "y");
  test.ExpectGradients(expected, [&](const auto& dx, const auto& dweight, const auto& dbias) {
    NormalizeRowsBackward(test.x, test.weight, centered, test.statistics, test.dy, dx, dweight,
                          dbias);
  });
}

TEST(NormalizeRowsTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t width : kLengths) {
        if (width < 3) continue;
        for (const int64_t rows : {0, 1, 8, 21}) {
          ExpectRowsAreRight({rows, width}, dtype, /*centered=*/true);
          ExpectRowsAreRight({rows, width}, dtype, /*centered=*/false);
        }
      }
    }
  });
}

TEST(NormalizeRowsTest, SameBitsOnThreads) {
  for (const DType dtype : kFloatingDTypes) {
    const Case test({300, 257}, {257}, 300, dtype);
    ExpectSameBitsOnThreads([&] {
      NormalizeRows(test.x, test.weight, test.bias, true, 1e-5, test.y, test.statistics);
      return test.y;
    });
    const auto backward = [&] {
      NormalizeRowsBackward(test.x, test.weight, true, test.statistics, test.dy, {test.dx},
                            {test.dweight}, {test.dbias});
    };
    ExpectSameBitsOnThreads([&] { return backward(), test.dx; });
    ExpectSameBitsOnThreads([&] { return backward(), test.dweight; });
    ExpectSameBitsOnThreads([&] { return backward(), test.dbias; });
  }
}

TEST(NormalizeRowsTest, FarFromZeroAndConstant) {
  const Tensor x = Tensor::FromVector<float>({10000, 10001, 10002, 10003, 7, 7, 7, 7}, {2, 4});
  const Tensor y = Tensor::Empty({2, 4}), statistics = Tensor::Empty({2, 2}, {DType::kFloat64});
  ForEachIsa([&] {
    NormalizeRows(x, {}, {}, true, 1e-5, y, statistics);
    const double z = 1.5 / std::sqrt(1.25 + 1e-5);
    ExpectNear(y, {-z, -z / 3, z / 3, z, 0, 0, 0, 0}, "y");
  });
}

TEST(NormalizeRowsTest, NaNAndInfinityTakeTheirRow) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {NAN, inf, -inf}) {
    const Tensor x = Tensor::FromVector<float>({1, bad, bad, 1, 1, 2}, {3, 2});
    const Tensor y = Tensor::Empty({3, 2}), statistics = Tensor::Empty({2, 3}, {DType::kFloat64});
    NormalizeRows(x, {}, {}, true, 1e-5, y, statistics);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(y.data<float>()[i]), i < 4) << i;
  }
}

void ExpectGroupsAreRight(const Shape& shape, int64_t groups, DType dtype) {
  SCOPED_TRACE(NameOf(shape, dtype) + ", groups " + std::to_string(groups));
  const int64_t channels = shape[1], inner = shape[2];
  const Case test(shape, {channels}, shape[0] * groups, dtype);
  const Reference expected = test.Expected(
      true, [=](size_t i) { return i / (channels / groups * inner); },
      [=](size_t i) { return i / inner % channels; });
  GroupNorm(test.x, groups, test.weight, test.bias, Case::kEpsilon, test.y, test.statistics);
  ExpectNear(test.y, expected.y, "y");
  test.ExpectGradients(expected, [&](const auto& dx, const auto& dweight, const auto& dbias) {
    GroupNormBackward(test.x, groups, test.weight, test.statistics, test.dy, dx, dweight, dbias);
  });
}

TEST(GroupNormTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t inner : {1, 3, 16, 49}) {
        for (const int64_t groups : {1, 2, 6}) {
          if (inner == 1 && groups == 6) continue;
          ExpectGroupsAreRight({3, 6, inner}, groups, dtype);
        }
      }
      ExpectGroupsAreRight({0, 6, 4}, 2, dtype);
    }
  });
}

TEST(GroupNormTest, SameBitsOnThreads) {
  const Case test({8, 12, 1000}, {12}, 8 * 3, DType::kFloat32);
  ExpectSameBitsOnThreads([&] {
    GroupNorm(test.x, 3, test.weight, test.bias, 1e-5, test.y, test.statistics);
    return test.y;
  });
  const auto backward = [&] {
    GroupNormBackward(test.x, 3, test.weight, test.statistics, test.dy, {test.dx}, {test.dweight},
                      {test.dbias});
  };
  ExpectSameBitsOnThreads([&] { return backward(), test.dx; });
  ExpectSameBitsOnThreads([&] { return backward(), test.dweight; });
}

Reference ExpectedOfChannels(const Case& test) {
  const int64_t channels = test.x.dim(1), inner = test.x.dim(2);
  const auto channel = [=](size_t i) { return i / inner % channels; };
  return test.Expected(true, channel, channel);
}

void ExpectBatchNormIsRight(const Shape& shape, DType dtype) {
  SCOPED_TRACE(NameOf(shape, dtype));
  const int64_t channels = shape[1];
  const Case test(shape, {channels}, channels, dtype);
  const Reference expected = ExpectedOfChannels(test);
  const BatchNormParameters parameters = {.weight = test.weight,
                                          .bias = test.bias,
                                          .running_mean = Tensor::Full({channels}, 2),
                                          .running_var = Tensor::Full({channels}, 3),
                                          .momentum = 0.25,
                                          .epsilon = Case::kEpsilon};
  BatchNorm(test.x, parameters, test.y, test.statistics);
  ExpectNear(test.y, expected.y, "y");
  Doubles running_mean, running_var;
  const double n = static_cast<double>(shape[0] * shape[2]);
  for (int64_t c = 0; c < channels; ++c) {
    running_mean.push_back(1.5 + expected.means[c] / 4);
    running_var.push_back(2.25 + expected.variances[c] * n / (n - 1) / 4);
  }
  ExpectNear(parameters.running_mean, running_mean, "running mean");
  ExpectNear(parameters.running_var, running_var, "running variance");
  test.ExpectGradients(expected, [&](const auto& dx, const auto& dweight, const auto& dbias) {
    BatchNormBackward(test.x, parameters, test.statistics, test.dy, dx, dweight, dbias);
  });
}

const Shape kImages[] = {{2, 3, 5},   {5, 1, 1},  {33, 70, 1}, {300, 2, 1},
                         {4, 2, 196}, {3, 5, 16}, {2, 1, 600}};

TEST(BatchNormTest, ValuesAndGradients) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const Shape& shape : kImages) ExpectBatchNormIsRight(shape, dtype);
    }
  });
}

// Values that are cut off take no part in any gradient.
TEST(BatchNormTest, WithRelu) {
  ForEachIsa([] {
    for (const Shape& shape : kImages) {
      const Case test(shape, {shape[1]}, shape[1], DType::kFloat64);
      Doubles y = ExpectedOfChannels(test).y;
      Doubles dy = test.dy.ToVector<double>();
      for (size_t i = 0; i < y.size(); ++i) {
        dy[i] = y[i] > 0 ? dy[i] : 0;
        y[i] = y[i] > 0 ? y[i] : 0;
      }
      Case cut = test;
      cut.dy = Tensor::FromVector(dy, shape);
      const BatchNormParameters parameters = {
          .weight = test.weight, .bias = test.bias, .epsilon = Case::kEpsilon, .relu = true};
      BatchNorm(test.x, parameters, test.y, test.statistics);
      ExpectNear(test.y, y, "y");
      test.ExpectGradients(
          ExpectedOfChannels(cut), [&](const auto& dx, const auto& dweight, const auto& dbias) {
            BatchNormBackward(test.x, parameters, test.statistics, test.dy, dx, dweight, dbias);
          });
    }
  });
}

TEST(BatchNormTest, EvaluationTakesTheRunningStatistics) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      const Case test({2, 1, 3}, {1}, 1, dtype);
      const BatchNormParameters parameters = {.weight = Tensor::Full({1}, 6, {.dtype = dtype}),
                                              .bias = Tensor::Full({1}, 0.5, {.dtype = dtype}),
                                              .running_mean = Tensor::Full({1}, 1),
                                              .running_var = Tensor::Full({1}, 3),
                                              .training = false,
                                              .epsilon = 1};
      BatchNorm(test.x, parameters, test.y, test.statistics);
      BatchNormBackward(test.x, parameters, test.statistics, test.dy, {test.dx}, {test.dweight},
                        {test.dbias});
      const Doubles x = test.x.ToVector<double>(), dy = test.dy.ToVector<double>();
      Doubles y(6), dx(6), dweight(1), dbias(1);
      for (int i = 0; i < 6; ++i) {
        y[i] = 3 * (x[i] - 1) + 0.5;
        dx[i] = 3 * dy[i];
        dweight[0] += dy[i] * (x[i] - 1) / 2;
        dbias[0] += dy[i];
      }
      ExpectNear(test.y, y, "y");
      ExpectNear(test.dx, dx, "dx");
      ExpectNear(test.dweight, dweight, "dweight");
      ExpectNear(test.dbias, dbias, "dbias");
      EXPECT_EQ(parameters.running_mean.Item(), 1);
      EXPECT_EQ(parameters.running_var.Item(), 3);
    }
  });
}

TEST(BatchNormTest, SameBitsOnThreads) {
  for (const Shape& shape : {Shape{16, 12, 49}, Shape{64, 600, 1}}) {
    const Case test(shape, {shape[1]}, shape[1], DType::kFloat32);
    const BatchNormParameters parameters = {.weight = test.weight, .bias = test.bias};
    ExpectSameBitsOnThreads([&] {
      BatchNorm(test.x, parameters, test.y, test.statistics);
      return test.y;
    });
    const auto backward = [&] {
      BatchNormBackward(test.x, parameters, test.statistics, test.dy, {test.dx}, {test.dweight},
                        {test.dbias});
    };
    ExpectSameBitsOnThreads([&] { return backward(), test.dx; });
    ExpectSameBitsOnThreads([&] { return backward(), test.dweight; });
  }
}

}  // namespace
}  // namespace ops::cpu
