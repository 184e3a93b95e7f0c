#include "ops/nn/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/autograd/functions.h"

namespace ops::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Times : public Module {
 public:
  explicit Times(double factor, double offset = 0)
      : factor_(Tensor::Full({1}, factor)), offset_(offset) {
    RegisterParameter("factor", factor_);
  }
  Tensor Forward(const Tensor& x) override { return x * factor_ + offset_; }

 private:
  Tensor factor_;
  double offset_;
};

class PlusOne : public Module {
 public:
  Tensor Forward(const Tensor& x) override { return x + 1; }
};

std::vector<std::string> ParameterNames(const Module& module) {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : module.Parameters()) names.push_back(parameter.name);
  return names;
}

TEST(SequentialTest, RunsItsLayersInOrder) {
  Sequential net;
  net.Add<PlusOne>();
  Times& times = net.Add<Times>(3);
  net.Add<PlusOne>();
  EXPECT_EQ(net.Forward(Tensor::Full({1}, 2)).Item(), 10);
  EXPECT_EQ(times.Path(), "1");
  EXPECT_EQ(net.size(), 3);
  EXPECT_THAT(ParameterNames(net), ElementsAre("1.factor"));
}

TEST(SequentialTest, OfNothingIsTheIdentity) {
  Sequential net;
  const Tensor x = Tensor::Full({1}, 2);
  EXPECT_TRUE(net.Forward(x).IsSameAs(x));
}

TEST(ModuleListTest, KeepsTheKindOfItsModules) {
  ModuleList<Times> list;
  list.Add(2);
  Times& last = list.Add(3, 1);
  EXPECT_EQ(list.size(), 2);
  EXPECT_EQ(&list[1], &last);
  Tensor x = Tensor::Full({1}, 5);
  for (Times& times : list) x = times.Forward(x);
  EXPECT_EQ(x.Item(), 31);
}

TEST(ModuleListTest, IsPartOfItsParent) {
  struct Model : Module {
    Model() {
      Register("blocks", blocks);
      for (int i = 0; i < 2; ++i) blocks.Add(i);
    }
    ModuleList<Times> blocks;
  } model;
  EXPECT_THAT(ParameterNames(model), ElementsAre("blocks.0.factor", "blocks.1.factor"));
  EXPECT_EQ(model.blocks[1].Path(), "blocks.1");
  model.Eval();
  EXPECT_FALSE(model.blocks[1].training());
}

TEST(ModuleListTest, MayBeEmpty) {
  ModuleList<> list;
  EXPECT_EQ(list.size(), 0);
  EXPECT_TRUE(list.begin() == list.end());
  EXPECT_THAT(list.Parameters(), IsEmpty());
}

}  // namespace
}  // namespace ops::nn
