#include "ops/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>

#include "ops/autograd/grad.h"
#include "ops/cpu/thread_pool.h"
#include "ops/optim/adam.h"
#include "ops/optim/lion.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Tensor Parameter(double value, const Shape& shape = {1}, DType dtype = DType::kFloat32) {
  return SetRequiresGrad(Tensor::Full(shape, value, {.dtype = dtype}));
}

void GiveGradient(const Tensor& parameter, double value) {
  SetGrad(parameter, Tensor::Full(parameter.shape(), value, parameter.options()));
}

std::vector<std::string> NamesOf(const std::vector<NamedTensor>& list) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : list) names.push_back(entry.name);
  return names;
}

TEST(OptimizerTest, ZeroGradClearsEveryGradientAndKeepsItsPlace) {
  const Tensor a = Parameter(0), b = Parameter(0);
  Sgd optimizer({{"a", a}, {"b", b}});
  GiveGradient(a, 1);
  const Tensor place = GradPlace(a);
  optimizer.ZeroGrad();
  EXPECT_FALSE(Grad(a).defined());
  EXPECT_FALSE(Grad(b).defined());
  EXPECT_TRUE(GradPlace(a).IsSameAs(place));
}

TEST(OptimizerTest, RefusesWhatItCantChange) {
  EXPECT_THAT([] { Sgd(std::vector<NamedTensor>(), {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no parameters")));
  EXPECT_THAT([] { Sgd(std::vector<ParameterGroup>(2), {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no parameters")));
  EXPECT_THAT(
      ([] {
        Sgd({{"steps", Tensor::Zeros({2}, {.dtype = DType::kInt64})}});
      }),
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("'steps'"), HasSubstr("int64[2]"))));
  EXPECT_THAT(([] {
                Sgd({{"nothing", Tensor()}});
              }),
              ThrowsMessage<std::invalid_argument>(HasSubstr("'nothing'")));
}

TEST(OptimizerTest, RefusesALearningRateThatMakesNoSense) {
  Sgd optimizer({{"p", Parameter(0)}}, {.learning_rate = 0.5});
  EXPECT_THAT([&] { optimizer.set_learning_rate(-1); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("-1")));
  EXPECT_THAT([&] { optimizer.ScaleLearningRates(std::numeric_limits<double>::quiet_NaN()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("nan")));
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
}

TEST(ParameterGroupTest, HasItsOwnLearningRateAndWeightDecay) {
  const Tensor a = Parameter(1), b = Parameter(1), c = Parameter(1);
  Sgd optimizer({{.parameters = {{"a", a}}},
                 {.parameters = {{"b", b}}, .learning_rate = 0.25},
                 {.parameters = {{"c", c}}, .weight_decay = 0}},
                {.learning_rate = 0.5, .weight_decay = 1});
  for (const Tensor& parameter : {a, b, c}) GiveGradient(parameter, 1);
  optimizer.Step();
  EXPECT_EQ(a.Item(), 1 - 0.5 * (1 + 1));
  EXPECT_EQ(b.Item(), 1 - 0.25 * (1 + 1));
  EXPECT_EQ(c.Item(), 1 - 0.5 * 1);
  EXPECT_THAT(NamesOf(optimizer.parameters()), ElementsAre("a", "b", "c"));
}

TEST(ParameterGroupTest, SchedulesScaleEveryLearningRateFromItsBase) {
  Sgd optimizer({{.parameters = {{"a", Parameter(1)}}},
                 {.parameters = {{"b", Parameter(1)}}, .learning_rate = 0.25}},
                {.learning_rate = 0.5});
  optimizer.ScaleLearningRates(0.5);
  optimizer.ScaleLearningRates(0.1);
  EXPECT_EQ(optimizer.learning_rate(), 0.05);
  EXPECT_EQ(optimizer.group_learning_rate(0), 0.05);
  EXPECT_EQ(optimizer.group_learning_rate(1), 0.025);
  optimizer.set_learning_rate(2);
  EXPECT_EQ(optimizer.learning_rate(), 2);
  EXPECT_EQ(optimizer.group_learning_rate(1), 0.025);
  optimizer.ScaleLearningRates(0.5);
  EXPECT_EQ(optimizer.learning_rate(), 1);
  EXPECT_EQ(optimizer.group_learning_rate(1), 0.125);
}

TEST(ParameterGroupTest, NamesAParameterThatComesTwice) {
  const Tensor shared = Parameter(1);
  EXPECT_THAT(([&] {
                Sgd({{.parameters = {{"head", shared}}}, {.parameters = {{"embedding", shared}}}});
              }),
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("'embedding' twice"), HasSubstr("first as 'head'"))));
  EXPECT_THAT(
      ([&] {
        Sgd({{"w", Parameter(1)}, {"w", Parameter(1, {2})}});
      }),
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("named 'w'"), HasSubstr("float32[2]"))));
}

TEST(ParameterGroupTest, RefusesOptionsThatMakeNoSense) {
  const auto refused = [](ParameterGroup group, const char* message) {
    group.parameters = {{"p", Parameter(1)}};
    EXPECT_THAT([&] { AdamW{std::vector{group}}; },
                ThrowsMessage<std::invalid_argument>(HasSubstr(message)));
  };
  refused({.learning_rate = -1}, "a group's learning_rate is -1");
  refused({.weight_decay = -2}, "a group's weight_decay is -2");
}

TEST(OptimizerTest, FrozenParametersAreLeftAloneAndHaveNoState) {
  const Tensor frozen = Parameter(1), trained = Parameter(1);
  SetRequiresGrad(frozen, false);
  AdamW optimizer({{"frozen", frozen}, {"trained", trained}}, {.weight_decay = 0.5});
  EXPECT_THAT(optimizer.StateDict(), IsEmpty());
  GiveGradient(trained, 1);
  optimizer.Step();
  EXPECT_EQ(frozen.Item(), 1);
  EXPECT_LT(trained.Item(), 1);
  EXPECT_THAT(NamesOf(optimizer.StateDict()),
              ElementsAre("trained.exp_avg", "trained.exp_avg_sq", "trained.step"));
}

// Every optimizer, over parameters of several dtypes and sizes.
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<NamedTensor>)>;

struct NamedMaker {
  std::string name;
  MakeOptimizer make;
};

template <class Kind, class Options>
NamedMaker Maker(std::string name, const Options& options) {
  return {std::move(name), [options](std::vector<NamedTensor> parameters) {
            return std::make_unique<Kind>(std::move(parameters), options);
          }};
}

class EveryOptimizer : public testing::TestWithParam<NamedMaker> {
 protected:
  static std::vector<NamedTensor> MakeParameters() {
    Generator generator(7);
    std::vector<NamedTensor> parameters;
    const auto add = [&](const char* name, const Shape& shape, DType dtype) {
      parameters.push_back(
          {name, SetRequiresGrad(Tensor::Randn(shape, generator, {.dtype = dtype}))});
    };
    add("a", {70, 1001}, DType::kFloat32);
    add("b", {3}, DType::kFloat32);
    add("c", {5, 7}, DType::kFloat64);
    add("d", {33}, DType::kBFloat16);
    add("e", {0}, DType::kFloat32);
    add("f", {}, DType::kFloat32);
    return parameters;
  }

  static void Step(Optimizer& optimizer, uint64_t seed) {
    Generator generator(seed);
    for (const auto& [name, parameter] : optimizer.parameters()) {
      SetGrad(parameter, Tensor::Randn(parameter.shape(), generator, parameter.options()));
    }
    optimizer.Step();
  }

  static std::vector<std::vector<double>> ValuesOf(const std::vector<NamedTensor>& list) {
    std::vector<std::vector<double>> values;
    for (const NamedTensor& entry : list) values.push_back(entry.tensor.ToVector<double>());
    return values;
  }
};

TEST_P(EveryOptimizer, GivesTheSameBitsOnThreadsAndOneParameterAtATime) {
  const auto run = [&](int num_threads) {
    cpu::ThreadPool pool(num_threads);
    const cpu::ScopedThreadPool use(&pool);
    const auto optimizer = GetParam().make(MakeParameters());
    for (uint64_t seed : {1, 2, 3}) Step(*optimizer, seed);
    return ValuesOf(optimizer->parameters());
  };
  const auto alone = run(1);
  EXPECT_EQ(run(2), alone);

  const std::vector<NamedTensor> parameters = MakeParameters();
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (const NamedTensor& parameter : parameters) {
    optimizers.push_back(GetParam().make({parameter}));
  }
  for (uint64_t seed : {1, 2, 3}) {
    Generator generator(seed);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& tensor = parameters[i].tensor;
      SetGrad(tensor, Tensor::Randn(tensor.shape(), generator, tensor.options()));
      optimizers[i]->Step();
    }
  }
  EXPECT_EQ(ValuesOf(parameters), alone);
}

TEST_P(EveryOptimizer, GradientsInsideOneBucketGiveTheSameBits) {
  const auto optimizer = GetParam().make(MakeParameters()),
             other = GetParam().make(MakeParameters());
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const Tensor bucket = Tensor::Zeros({100'000}, {.dtype = dtype});
    int64_t at = 0;
    for (const auto& [name, parameter] : other->parameters()) {
      if (parameter.dtype() != dtype) continue;
      const int64_t end = at + parameter.num_elements();
      PlaceGrad(parameter, bucket.Slice(at, end).View(parameter.shape()));
      at = end;
    }
  }
  for (uint64_t seed : {1, 2}) {
    Step(*optimizer, seed);
    Step(*other, seed);
  }
  EXPECT_EQ(ValuesOf(other->parameters()), ValuesOf(optimizer->parameters()));
}

// In an order of their own, while the others have gradients too; names that are nobody's mean
// nothing.
TEST_P(EveryOptimizer, StepsInPartsGiveTheBitsOfOne) {
  const std::vector<NamedTensor> parameters = MakeParameters(), in_parts = MakeParameters();
  const auto optimizer = GetParam().make(parameters), other = GetParam().make(in_parts);
  const auto& p = in_parts;
  const std::vector<std::vector<NamedTensor>> parts = {
      {p[5], p[2]}, {p[4], {"stranger", Tensor()}, p[0]}, {p[1], p[3]}};
  for (uint64_t seed : {1, 2, 3}) {
    Step(*optimizer, seed);
    for (size_t i = 0; i < parameters.size(); ++i) {
      SetGrad(in_parts[i].tensor, Grad(parameters[i].tensor).Clone());
    }
    for (const std::vector<NamedTensor>& part : parts) other->Step(part);
  }
  EXPECT_EQ(ValuesOf(in_parts), ValuesOf(parameters));
  EXPECT_EQ(NamesOf(other->StateDict()), NamesOf(optimizer->StateDict()));
  EXPECT_EQ(ValuesOf(other->StateDict()), ValuesOf(optimizer->StateDict()));
}

TEST_P(EveryOptimizer, GoesOnFromAStateDict) {
  const auto first = GetParam().make(MakeParameters());
  for (uint64_t seed : {1, 2}) Step(*first, seed);

  const auto second = GetParam().make(MakeParameters());
  Step(*second, 99);
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    second->parameters()[i].tensor.CopyFrom(first->parameters()[i].tensor);
  }
  second->LoadStateDict(first->StateDict());
  EXPECT_EQ(NamesOf(second->StateDict()), NamesOf(first->StateDict()));
  EXPECT_EQ(ValuesOf(second->StateDict()), ValuesOf(first->StateDict()));
  Step(*first, 3);
  Step(*second, 3);
  EXPECT_EQ(ValuesOf(second->parameters()), ValuesOf(first->parameters()));
}

// A parameter that gets its first gradient later moves the others' states, which must not change.
TEST_P(EveryOptimizer, LateParametersBeginWithTheirFirstGradient) {
  const std::vector<NamedTensor> parameters = MakeParameters(), alone = MakeParameters();
  const auto optimizer = GetParam().make(parameters), late = GetParam().make({alone[0]});
  const auto others = GetParam().make({alone.begin() + 1, alone.end()});
  const auto give_gradient = [](const NamedTensor& parameter, uint64_t seed) {
    Generator generator(seed);
    SetGrad(parameter.tensor,
            Tensor::Randn(parameter.tensor.shape(), generator, parameter.tensor.options()));
  };
  for (uint64_t step : {0, 1, 2, 3}) {
    for (size_t i = step < 2 ? 1 : 0; i < parameters.size(); ++i) {
      give_gradient(parameters[i], 10 * step + i);
      give_gradient(alone[i], 10 * step + i);
    }
    optimizer->Step();
    late->Step();
    others->Step();
  }
  EXPECT_EQ(ValuesOf(parameters), ValuesOf(alone));
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, EveryOptimizer,
    testing::Values(Maker<Sgd>("Sgd", SgdOptions{.learning_rate = 0.1, .weight_decay = 0.1}),
                    Maker<Sgd>("Momentum", SgdOptions{.learning_rate = 0.1, .momentum = 0.9}),
                    Maker<Sgd>("Nesterov",
                               SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
                    Maker<Adam>("Adam", AdamOptions{.learning_rate = 0.1, .weight_decay = 0.1}),
                    Maker<AdamW>("AdamW", AdamOptions{.learning_rate = 0.1, .weight_decay = 0.1}),
                    Maker<Lion>("Lion", LionOptions{.learning_rate = 0.1, .weight_decay = 0.1})),
    [](const auto& info) { return info.param.name; });

TEST(StateDictTest, HoldsWhatTheFormulasRemember) {
  const Tensor p = Parameter(1, {2, 1}, DType::kFloat64);
  Adam optimizer({{"fc.weight", p}}, {.beta1 = 0.5, .beta2 = 0.75});
  GiveGradient(p, 2);
  optimizer.Step();
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : optimizer.StateDict()) state[name] = tensor;
  EXPECT_EQ(state.at("fc.weight.exp_avg").shape(), (Shape{2, 1}));
  EXPECT_THAT(state.at("fc.weight.exp_avg").ToVector<double>(), ElementsAre(1, 1));
  EXPECT_THAT(state.at("fc.weight.exp_avg_sq").ToVector<double>(), ElementsAre(1, 1));
  EXPECT_EQ(state.at("fc.weight.step").dtype(), DType::kInt64);
  EXPECT_EQ(state.at("fc.weight.step").Item(), 1);
}

TEST(StateDictTest, StatesOfSixteenBitParametersAreFloat32) {
  const Tensor p = Parameter(1, {3}, DType::kBFloat16);
  Sgd optimizer({{"p", p}}, {.momentum = 0.9});
  GiveGradient(p, 1);
  optimizer.Step();
  EXPECT_EQ(optimizer.StateDict()[0].name, "p.momentum_buffer");
  EXPECT_EQ(optimizer.StateDict()[0].tensor.dtype(), DType::kFloat32);
}

TEST(StateDictTest, RefusesAnothersState) {
  const Tensor p = Parameter(1, {2});
  Adam optimizer({{"p", p}});
  GiveGradient(p, 1);
  optimizer.Step();
  const auto refused = [&](std::vector<NamedTensor> state, auto message) {
    EXPECT_THAT([&] { optimizer.LoadStateDict(state); },
                ThrowsMessage<std::invalid_argument>(message));
    EXPECT_EQ(optimizer.StateDict().back().tensor.Item(), 1);
  };
  const NamedTensor step = {"p.step", Tensor::Scalar(5)};
  const NamedTensor m = {"p.exp_avg", Tensor::Zeros({2})}, v = {"p.exp_avg_sq", Tensor::Zeros({2})};
  refused({m, step}, AllOf(HasSubstr("'p.exp_avg_sq'"), HasSubstr("missing")));
  refused({m, v}, AllOf(HasSubstr("'p.step'"), HasSubstr("missing")));
  refused({m, v, step, {"q.exp_avg", Tensor::Zeros({2})}}, HasSubstr("'q.exp_avg'"));
  refused({m, step, {"p.exp_avg_sq", Tensor::Zeros({3})}},
          AllOf(HasSubstr("float32[3]"), HasSubstr("expected float32[2]")));
  refused({m, step, {"p.exp_avg_sq", Tensor::Zeros({2}, {.dtype = DType::kFloat64})}},
          HasSubstr("float64[2]"));
  optimizer.LoadStateDict({m, v, step});
  EXPECT_EQ(optimizer.StateDict().back().tensor.Item(), 5);
  optimizer.LoadStateDict({});
  EXPECT_THAT(optimizer.StateDict(), IsEmpty());
}

}  // namespace
}  // namespace ops::optim
