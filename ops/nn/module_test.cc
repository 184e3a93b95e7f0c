#include "ops/nn/module.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"

namespace ops::nn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

class Scaler : public Module {
 public:
  Scaler() {
    RegisterParameter("factor", factor);
    RegisterBuffer("calls", calls);
  }
  Tensor Forward(const Tensor& x) override { return x * factor; }
  using Module::Register;
  using Module::RegisterBuffer;
  using Module::RegisterParameter;

  Tensor factor = Tensor::Full({2}, 3);
  Tensor calls = Tensor::Zeros({}, {.dtype = DType::kInt64});
};

class Pair : public Module {
 public:
  Pair() {
    RegisterParameter("own", own);
    Register("first", first);
    Register("second", second);
  }
  Tensor own = Tensor::Zeros({1});
  Scaler first, second;
};

std::vector<std::string> Names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

TEST(ModuleTest, NamesParametersAndBuffersInOrderOfRegistration) {
  Pair pair;
  Scaler third;
  pair.second.Register("inner", third);
  EXPECT_THAT(Names(pair.Parameters()),
              ElementsAre("own", "first.factor", "second.factor", "second.inner.factor"));
  EXPECT_THAT(Names(pair.Buffers()),
              ElementsAre("first.calls", "second.calls", "second.inner.calls"));
  EXPECT_TRUE(pair.Parameters()[1].tensor.IsSameAs(pair.first.factor));
  EXPECT_TRUE(RequiresGrad(pair.first.factor));
  EXPECT_FALSE(RequiresGrad(pair.first.calls));
  EXPECT_EQ(third.Path(), "second.inner");
  EXPECT_EQ(pair.Path(), "");
}

TEST(ModuleTest, TiedAndFrozenParametersAreListedOnce) {
  Pair pair;
  pair.second.RegisterParameter("tied", pair.first.factor);
  SetRequiresGrad(pair.own, false);
  EXPECT_THAT(Names(pair.Parameters()), ElementsAre("own", "first.factor", "second.factor"));
}

TEST(ModuleTest, ZeroGradClearsThemAll) {
  Pair pair;
  Backward(Sum(pair.second.Forward(pair.first.Forward(Tensor::Full({2}, 1)))));
  EXPECT_THAT(Grad(pair.first.factor).ToVector<float>(), ElementsAre(3, 3));
  pair.ZeroGrad();
  EXPECT_FALSE(Grad(pair.first.factor).defined());
  EXPECT_FALSE(Grad(pair.second.factor).defined());
}

TEST(ModuleTest, TrainingModeReachesChildren) {
  Pair pair;
  EXPECT_TRUE(pair.second.training());
  pair.Eval();
  EXPECT_FALSE(pair.training());
  EXPECT_FALSE(pair.second.training());
  pair.Train();
  EXPECT_TRUE(pair.second.training());
}

TEST(ModuleTest, FreezingReachesChildrenAndDropsGradients) {
  Pair pair;
  const Tensor x = Tensor::Full({2}, 1);
  Backward(Sum(pair.second.Forward(pair.first.Forward(x))));
  pair.first.Freeze();
  EXPECT_FALSE(RequiresGrad(pair.first.factor));
  EXPECT_FALSE(Grad(pair.first.factor).defined());
  EXPECT_TRUE(Grad(pair.second.factor).defined());
  pair.ZeroGrad();
  Backward(Sum(pair.second.Forward(pair.first.Forward(x))));
  EXPECT_FALSE(Grad(pair.first.factor).defined());
  EXPECT_TRUE(Grad(pair.second.factor).defined());
  pair.Freeze();
  EXPECT_FALSE(RequiresGrad(pair.own));
  pair.Freeze(false);
  EXPECT_TRUE(RequiresGrad(pair.first.factor));
}

TEST(ModuleTest, ModulesAreListedWithTheirNames) {
  Pair pair;
  Scaler third;
  pair.second.Register("inner", third);
  std::vector<std::string> names;
  for (const auto& [name, module] : pair.Modules()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("", "first", "second", "second.inner"));
  EXPECT_EQ(pair.Modules()[0].module, &pair);
  EXPECT_EQ(pair.Modules()[3].module, &third);
}

TEST(ModuleTest, ToChangesTheDTypeOfFloatingTensors) {
  Pair pair;
  Tensor tied = pair.first.factor;
  pair.second.RegisterParameter("tied", tied);
  SetRequiresGrad(pair.own, false);
  pair.To(DType::kBFloat16);
  EXPECT_EQ(pair.first.factor.dtype(), DType::kBFloat16);
  EXPECT_THAT(pair.first.factor.ToVector<float>(), ElementsAre(3, 3));
  EXPECT_TRUE(tied.IsSameAs(pair.first.factor));
  EXPECT_TRUE(RequiresGrad(tied));
  EXPECT_EQ(pair.own.dtype(), DType::kBFloat16);
  EXPECT_FALSE(RequiresGrad(pair.own));
  EXPECT_EQ(pair.first.calls.dtype(), DType::kInt64);
  EXPECT_THAT([&] { pair.To(DType::kInt32); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("int32")));
}

TEST(ModuleTest, BuffersStayFloat32In16Bits) {
  struct Averages : Module {
    Averages() { RegisterBuffer("mean", mean); }
    Tensor mean = Tensor::Full({2}, 1.0001);
  } averages;
  averages.To(DType::kFloat16);
  EXPECT_EQ(averages.mean.Describe(), "float32[2]");
  EXPECT_THAT(averages.mean.ToVector<float>(), ElementsAre(1.0001F, 1.0001F));
  averages.To(DType::kFloat64);
  EXPECT_EQ(averages.mean.Describe(), "float64[2]");
  averages.To(DType::kBFloat16);
  EXPECT_EQ(averages.mean.Describe(), "float32[2]");
}

TEST(ModuleTest, ForwardOfAModuleWithoutOneNamesIt) {
  struct Outer : Module {
    Outer() { Register("inner", inner); }
    Pair inner;
  } outer;
  EXPECT_THAT([&] { outer.inner.Forward(Tensor::Zeros({2})); },
              ThrowsMessage<std::logic_error>(HasSubstr("'inner'")));
}

TEST(ModuleTest, RefusesNamesThatArentFree) {
  Scaler scaler, child;
  Tensor tensor = Tensor::Zeros({1});
  for (const char* name : {"factor", "calls", "", "a.b"}) {
    const auto message = ThrowsMessage<std::invalid_argument>(HasSubstr(fmt::format("'{}", name)));
    EXPECT_THAT([&] { scaler.Register(name, child); }, message);
    EXPECT_THAT([&] { scaler.RegisterParameter(name, tensor); }, message);
    EXPECT_THAT([&] { scaler.RegisterBuffer(name, tensor); }, message);
  }
  EXPECT_EQ(child.Path(), "");
  EXPECT_FALSE(RequiresGrad(tensor));
}

TEST(ModuleTest, AChildHasOneParentAtATime) {
  auto first = std::make_unique<Scaler>();
  Scaler second, child;
  first->Register("child", child);
  EXPECT_THAT([&] { second.Register("mine", child); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'child'")));
  first.reset();
  second.Register("mine", child);
  EXPECT_EQ(child.Path(), "mine");
}

TEST(ModuleTest, AChildThatGoesFirstIsForgotten) {
  Scaler parent;
  {
    Scaler child;
    parent.Register("child", child);
  }
  EXPECT_THAT(Names(parent.Parameters()), ElementsAre("factor"));
}

TEST(StateDictTest, RoundTripSharesNothing) {
  Pair source, target;
  source.own.Fill(1);
  source.second.factor.Fill(5);
  source.first.calls.Fill(9);
  const auto state = source.StateDict();
  EXPECT_THAT(Names(state),
              ElementsAre("own", "first.factor", "second.factor", "first.calls", "second.calls"));
  target.LoadStateDict(state);
  EXPECT_EQ(target.own.Item(), 1);
  EXPECT_EQ(target.first.calls.Item(), 9);
  source.second.factor.Fill(6);
  EXPECT_THAT(target.second.factor.ToVector<float>(), ElementsAre(5, 5));
}

TEST(StateDictTest, NamesWhatIsMissingAndUnexpectedAndChangesNothing) {
  Scaler scaler;
  const Tensor value = Tensor::Full({2}, 8);
  EXPECT_THAT(
      [&] {
        scaler.LoadStateDict({{"factor", value}, {"fcator", value}});
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("missing: [calls]"), HasSubstr("unexpected: [fcator]"))));
  const Tensor calls = Tensor::Zeros({3}, {.dtype = DType::kInt64});
  EXPECT_THAT(
      [&] {
        scaler.LoadStateDict({{"factor", value}, {"calls", calls}});
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("'calls'"), HasSubstr("int64[3]"), HasSubstr("int64[]"))));
  EXPECT_THAT(
      [&] {
        scaler.LoadStateDict({{"factor", value}, {"calls", Tensor::Scalar(0)}});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("float32[]")));
  EXPECT_THAT(scaler.factor.ToVector<float>(), ElementsAre(3, 3));
}

TEST(StateDictTest, WithoutStrictnessTakesWhatItKnows) {
  Scaler scaler;
  const Tensor value = Tensor::Full({2}, 8);
  scaler.LoadStateDict({{"factor", value}, {"head", value}}, /*strict=*/false);
  EXPECT_THAT(scaler.factor.ToVector<float>(), ElementsAre(8, 8));
  EXPECT_THAT(
      [&] {
        scaler.LoadStateDict({{"factor", Tensor::Zeros({3})}}, /*strict=*/false);
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("float32[3]")));
}

TEST(StateDictTest, KeepsGradientsAndPlaces) {
  Scaler scaler;
  Backward(Sum(scaler.Forward(Tensor::Full({2}, 1))));
  scaler.LoadStateDict({{"factor", Tensor::Zeros({2})}, {"calls", scaler.calls.Clone()}});
  EXPECT_THAT(Grad(scaler.factor).ToVector<float>(), ElementsAre(1, 1));
}

}  // namespace
}  // namespace ops::nn
