#include "ops/cpu/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr int kSteps = 4;

// One element: parameter, gradient, two states.
struct Element {
  double p, g, first, second;
};

// An optimizer's kernel and its formula in float64.
struct Case {
  std::string name;
  std::function<void(const FlatRange&, const Tensor& first, const Tensor& second)> step;
  std::function<void(Element&, int64_t step)> reference;
};

Case SgdCase(const SgdStepOptions& o) {
  return {"SGD",
          [o](const FlatRange& range, const Tensor& buffer, const Tensor&) {
            SgdStep(range, o.momentum == 0 ? Tensor() : buffer, o);
          },
          [o](Element& e, int64_t) {
            const double g = e.g + o.weight_decay * e.p;
            if (o.momentum != 0) e.first = o.momentum * e.first + g;
            const double heavy = o.nesterov ? g + o.momentum * e.first : e.first;
            e.p -= o.learning_rate * (o.momentum == 0 ? g : heavy);
          }};
}

Case AdamCase(const AdamStepOptions& o) {
  return {"Adam",
          [o](const FlatRange& range, const Tensor& first, const Tensor& second) {
            AdamStep(range, first, second, o);
          },
          [o](Element& e, int64_t step) {
            const double g = e.g + (o.decoupled_weight_decay ? 0 : o.weight_decay * e.p);
            if (o.decoupled_weight_decay) e.p *= 1 - o.learning_rate * o.weight_decay;
            e.first = o.beta1 * e.first + (1 - o.beta1) * g;
            e.second = o.beta2 * e.second + (1 - o.beta2) * g * g;
            const double t = static_cast<double>(step);
            e.p -= o.learning_rate * (e.first / (1 - std::pow(o.beta1, t))) /
                   (std::sqrt(e.second / (1 - std::pow(o.beta2, t))) + o.epsilon);
          }};
}

Case LionCase(const LionStepOptions& o) {
  return {"Lion",
          [o](const FlatRange& range, const Tensor& momentum, const Tensor&) {
            LionStep(range, momentum, o);
          },
          [o](Element& e, int64_t) {
            const double mixed = o.beta1 * e.first + (1 - o.beta1) * e.g;
            e.p *= 1 - o.learning_rate * o.weight_decay;
            e.p -= o.learning_rate * ((mixed > 0) - (mixed < 0));
            e.first = o.beta2 * e.first + (1 - o.beta2) * e.g;
          }};
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const double decay : {0.0, 0.1}) {
    for (const double momentum : {0.0, 0.9}) {
      cases.push_back(SgdCase({.learning_rate = 0.1, .momentum = momentum, .weight_decay = decay}));
    }
    cases.push_back(
        SgdCase({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = decay, .nesterov = true}));
    for (const bool decoupled : {false, true}) {
      cases.push_back(AdamCase({.learning_rate = 0.01,
                                .epsilon = 1e-3,  // large enough to show where it is added
                                .weight_decay = decay,
                                .decoupled_weight_decay = decoupled}));
    }
    cases.push_back(LionCase({.learning_rate = 0.01, .weight_decay = decay}));
  }
  cases.push_back({"Average",
                   [](const FlatRange& range, const Tensor& average, const Tensor&) {
                     AverageStep(range, average, 0.9);
                   },
                   [](Element& e, int64_t) { e.first = 0.9 * e.first + 0.1 * e.p; }});
  return cases;
}

// Two tensors of n and 5 elements, their gradients and states, as an optimizer has them.
struct Model {
  Model(DType dtype, int64_t n)
      : parameters{RandomTensor({n}, dtype, 1), RandomTensor({5}, dtype, 2)},
        first(Misaligned({n + 5}, StateDType(dtype))),
        second(Misaligned({n + 5}, StateDType(dtype))) {
    first.FillZero();
    second.FillZero();
  }

  // The range of one more step; the second tensor has taken 10 steps more.
  FlatRange NextStep() {
    ++step;
    FlatRange range(parameters[0].dtype());
    for (int i : {0, 1}) {
      gradients[i] = RandomTensor(parameters[i].shape(), range.dtype(), 100 * step + i);
      const int64_t state_begin = i == 0 ? 0 : parameters[0].num_elements();
      range.Add(parameters[i], gradients[i], state_begin, step + 10 * i);
    }
    return range;
  }

  std::vector<Element> Elements() const {
    const auto m = first.ToVector<double>(), v = second.ToVector<double>();
    std::vector<Element> elements;
    for (int i : {0, 1}) {
      const auto p = parameters[i].ToVector<double>(), g = gradients[i].ToVector<double>();
      for (size_t j = 0; j < p.size(); ++j) {
        elements.push_back({p[j], g[j], m[elements.size()], v[elements.size()]});
      }
    }
    return elements;
  }

  Tensor parameters[2], gradients[2], first, second;
  int64_t step = 0;
};

// Half a unit in the last place of the parameter, which is rounded once, and some of float32.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-14;
    case DType::kBFloat16:
      return 0x1p-8 + 2e-6;
    case DType::kFloat16:
      return 0x1p-11 + 2e-6;
    default:
      return 2e-6;
  }
}

void ExpectNear(double value, double expected, double tolerance) {
  EXPECT_NEAR(value, expected, tolerance * (1 + std::abs(expected)));
}

void ExpectFollowsFormula(const Case& optimizer, DType dtype, int64_t n) {
  Model model(dtype, n);
  for (int i = 0; i < kSteps; ++i) {
    const FlatRange range = model.NextStep();
    std::vector<Element> expected = model.Elements();
    for (size_t j = 0; j < expected.size(); ++j) {
      const bool is_in_first = static_cast<int64_t>(j) < n;
      optimizer.reference(expected[j], model.step + (is_in_first ? 0 : 10));
    }
    optimizer.step(range, model.first, model.second);
    const std::vector<Element> actual = model.Elements();
    const double state_tolerance = std::min(2e-6, Tolerance(dtype));
    for (size_t j = 0; j < expected.size(); ++j) {
      ExpectNear(actual[j].p, expected[j].p, Tolerance(dtype));
      ExpectNear(actual[j].first, expected[j].first, state_tolerance);
      ExpectNear(actual[j].second, expected[j].second, state_tolerance);
      EXPECT_EQ(actual[j].g, expected[j].g);
    }
  }
}

TEST(OptimizerTest, FollowsTheFormulas) {
  ForEachIsa([] {
    for (const Case& optimizer : AllCases()) {
      for (const DType dtype : kFloatingDTypes) {
        SCOPED_TRACE(optimizer.name + std::string(Name(dtype)));
        for (const int64_t n : kLengths) ExpectFollowsFormula(optimizer, dtype, n);
      }
    }
  });
}

TEST(OptimizerTest, ThreadsAndInstructionSetsDoNotChangeBits) {
  for (const Case& optimizer : AllCases()) {
    std::string bits;
    ForEachIsa([&] {
      const auto run = [&] {
        Model model(DType::kFloat32, 100'003);
        for (int i = 0; i < 2; ++i) optimizer.step(model.NextStep(), model.first, model.second);
        const Tensor both = Tensor::Empty({2, 100'003});
        both.Slice(0, 1).View({100'003}).CopyFrom(model.parameters[0]);
        both.Slice(1, 2).View({100'003}).CopyFrom(model.first.Slice(0, 100'003));
        return both;
      };
      ExpectSameBitsOnThreads(run);
      if (bits.empty()) bits = BytesOf(run());
      EXPECT_TRUE(BytesOf(run()) == bits) << optimizer.name;
    });
  }
}

// Elements may move to other places of a bucket, or to other chunks: their results must not.
TEST(OptimizerTest, AnElementsPlaceDoesNotChangeItsBits) {
  const Tensor p = RandomTensor({100}, DType::kFloat32, 1);
  const Tensor gradient = RandomTensor({100}, DType::kFloat32, 2);
  ForEachIsa([&] {
    for (const Case& optimizer : AllCases()) {
      const auto run = [&](std::initializer_list<int64_t> cuts) {
        const Tensor result = p.Clone(), first = Tensor::Zeros({200}), second = first.Clone();
        FlatRange range(DType::kFloat32);
        int64_t begin = 0;
        for (const int64_t end : cuts) {
          range.Add(result.Slice(begin, end), gradient.Slice(begin, end), 2 * begin, 1);
          begin = end;
        }
        optimizer.step(range, first, second);
        return BytesOf(result);
      };
      EXPECT_TRUE(run({100}) == run({3, 7, 100}));
    }
  });
}

TEST(OptimizerTest, NothingIsNotTouched) {
  const FlatRange range(DType::kFloat32);
  for (const Case& optimizer : AllCases()) EXPECT_NO_THROW(optimizer.step(range, {}, {}));
}

FlatRange RangeOf(const Tensor& parameter, const Tensor& gradient) {
  FlatRange range(parameter.dtype());
  range.Add(parameter, gradient, 0, 1);
  return range;
}

TEST(AdamTest, AGradientOfZeroDividesByEpsilonAlone) {
  ForEachIsa([] {
    const Tensor p = Tensor::Full({17}, 1), zero = Tensor::Zeros({17});
    AdamStep(RangeOf(p, zero), Tensor::Zeros({17}), Tensor::Zeros({17}), {.learning_rate = 0.1});
    for (const float value : p.ToVector<float>()) EXPECT_EQ(value, 1);
  });
}

TEST(LionTest, NothingMovesWithoutADirectionAndNanIsSeen) {
  ForEachIsa([] {
    const Tensor p = Tensor::Full({17}, 1), gradient = Tensor::Zeros({17});
    gradient.data<float>()[16] = std::numeric_limits<float>::quiet_NaN();
    LionStep(RangeOf(p, gradient), Tensor::Zeros({17}), {.learning_rate = 0.1});
    for (int i = 0; i < 16; ++i) EXPECT_EQ(p.data<float>()[i], 1);
    EXPECT_TRUE(std::isnan(p.data<float>()[16]));
  });
}

}  // namespace
}  // namespace ops::cpu
