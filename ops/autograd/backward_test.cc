// The walk back: order, hooks, what is freed when, and what an exception leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

Tensor Leaf(std::vector<float> values) {
  return SetRequiresGrad(Tensor::FromVector(values, {static_cast<int64_t>(values.size())}));
}

// The identity, whose way back runs `backward` first.
template <class F>
Tensor Watch(const Tensor& x, F backward) {
  return Record("Watch", x.Clone(), {x}, [backward](const Tensor& dy, Node& node) {
    backward();
    node.input(0)->Add(dy);
  });
}

TEST(BackwardTest, ALeafAlone) {
  const Tensor w = SetRequiresGrad(Tensor::Scalar(3));
  Backward(w);
  Backward(w);
  EXPECT_EQ(Grad(w).Item(), 2);
}

TEST(BackwardTest, StartsFromTheGivenGradient) {
  const Tensor w = Leaf({1, 2});
  Backward(w * 2, Tensor::FromVector<float>({10, 100}, {2}));
  EXPECT_THAT(Grad(w).ToVector<float>(), ElementsAre(20, 200));
}

// d/dx (x + 2x)(x * x) with every use of x and of y = x * x adding its part: 3x^3 -> 9x^2.
TEST(BackwardTest, AddsUpOverAllUses) {
  const Tensor x = Leaf({2});
  const Tensor y = x * x;
  Backward((x + 2 * x) * y);
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(36));
}

// The identity, whose way back doubles the gradient in the place that `target` gives.
template <class Target>
Tensor DoubleBackward(const Tensor& x, Target target) {
  return Record("DoubleBackward", x.Clone(), {x}, [target](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = target(*node.input(0), dy);
    for (int64_t i = 0; i < dy.num_elements(); ++i) {
      const float before = accumulate ? place.template data<float>()[i] : 0;
      place.template data<float>()[i] = before + 2 * dy.template data<float>()[i];
    }
  });
}

TEST(BackwardTest, AGradientThatNobodyElseNeedsIsOverwritten) {
  const Tensor x = Leaf({1, 1});
  const std::byte* arrived = nullptr;
  const Tensor t = x * 1;
  const Tensor y = Record("Look", t.Clone(), {t}, [&](const Tensor& dy, Node& node) {
    arrived = dy.raw_data();
    node.input(0)->Add(dy);
  });
  const std::byte* passed_on = nullptr;
  const Tensor z = DoubleBackward(y, [&](GradMeta& input, const Tensor& dy) {
    passed_on = dy.raw_data();
    return input.TargetOver(dy);
  });
  Backward(z * 3, Leaf({1, 10}).Detach());
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(6, 60));
  EXPECT_EQ(arrived, passed_on);
}

// In t + f(t) the gradient goes both to f's way back and to t itself.
TEST(BackwardTest, AGradientThatIsNeededElsewhereIsNotOverwritten) {
  const Tensor x = Leaf({1, 1});
  const Tensor t = x * 1;
  const auto over = [](GradMeta& input, const Tensor& dy) { return input.TargetOver(dy); };
  const Tensor gradient = Tensor::FromVector<float>({1, 10}, {2});
  Backward(t + DoubleBackward(t, over) + DoubleBackward(DoubleBackward(t, over), over), gradient);
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(7, 70));
  EXPECT_THAT(gradient.ToVector<float>(), ElementsAre(1, 10));
}

// Gradients that pass through Add unchanged are shared, and must not be changed by what is added
// to one of them later.
TEST(BackwardTest, SharedGradientsAreNotChangedInPlace) {
  const Tensor x = Leaf({1});
  const Tensor a = x * 1, b = x * 10;
  const Tensor sum = a + b;
  Backward(sum + a + b * 3 + Relu(a));
  EXPECT_THAT(Grad(x).ToVector<float>(), ElementsAre(1 + 10 + 1 + 30 + 1));
  const Tensor seed = Tensor::Full({1}, 1);
  const Tensor c = x * 1;
  Backward(c + c, seed);
  EXPECT_EQ(seed.Item(), 1);
}

TEST(BackwardTest, RunsNodesInReverseOrderOfMaking) {
  const Tensor w = Leaf({1});
  std::vector<int> order;
  const auto note = [&order](int id) { return [&order, id] { order.push_back(id); }; };
  const Tensor a = Watch(w, note(1)), b = Watch(w, note(2)), c = Watch(a, note(3));
  const Tensor d = Watch(b, note(4));
  Backward(d + c + a);
  EXPECT_THAT(order, ElementsAre(4, 3, 2, 1));
}

TEST(BackwardTest, HooksRunAsSoonAsTheLastUseHasAdded) {
  const Tensor early = Leaf({1}), late = Leaf({1}), unused = Leaf({1});
  std::vector<std::string> events;
  const auto note = [&events](const char* what) {
    return [&events, what](const Tensor& leaf) {
      events.push_back(std::string(what) + " " + std::to_string(int(Grad(leaf).Item())));
    };
  };
  AddGradHook(early, note("early"));
  AddGradHook(early, note("early again"));
  AddGradHook(late, note("late"));
  AddGradHook(unused, note("unused"));
  const Tensor first = late * 2;
  const Tensor watched = Watch(first + early, [&] { events.push_back("node"); });
  Backward(watched + early + early);
  EXPECT_THAT(events, ElementsAre("node", "early 3", "early again 3", "late 2"));
}

TEST(BackwardTest, AUseThatTheLossDoesntDependOnIsNotWaitedFor) {
  const Tensor w = Leaf({1});
  const Tensor other = w * 5;
  int calls = 0;
  AddGradHook(w, [&](const Tensor&) { ++calls; });
  Backward(w * 2);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(Grad(w).Item(), 2);
}

TEST(BackwardTest, RemovedHooksDontRun) {
  const Tensor w = Leaf({1});
  std::vector<int> calls;
  const int64_t first = AddGradHook(w, [&](const Tensor&) { calls.push_back(1); });
  AddGradHook(w, [&](const Tensor&) { calls.push_back(2); });
  RemoveGradHook(w, first);
  Backward(w * 2);
  EXPECT_THAT(calls, ElementsAre(2));
}

TEST(BackwardTest, EndCallbacksRunOnceAfterAllHooksBeforeItReturns) {
  const Tensor a = Leaf({1}), b = Leaf({1});
  std::vector<std::string> events;
  for (const Tensor& leaf : {a, b}) {
    AddGradHook(leaf, [&](const Tensor&) {
      if (events.empty()) OnBackwardEnd([&] { events.push_back("end"); });
      events.push_back("hook");
    });
  }
  Backward(a * b);
  EXPECT_THAT(events, ElementsAre("hook", "hook", "end"));
  EXPECT_THROW(OnBackwardEnd([] {}), std::logic_error);
}

TEST(BackwardTest, HooksRecordNoTape) {
  const Tensor w = Leaf({1});
  bool recorded = true;
  AddGradHook(w, [&](const Tensor& leaf) { recorded = RequiresGrad(leaf * 2); });
  Backward(w * 2);
  EXPECT_FALSE(recorded);
  EXPECT_TRUE(RequiresGrad(w * 2));
}

TEST(BackwardTest, ABackwardInsideAHookIsOneOfItsOwn) {
  const Tensor w = Leaf({1}), v = Leaf({1});
  const Tensor inner = v * 7;
  AddGradHook(w, [&](const Tensor&) { Backward(inner); });
  Backward(v * w * w);
  EXPECT_EQ(Grad(w).Item(), 2);
  EXPECT_EQ(Grad(v).Item(), 1 + 7);
}

TEST(BackwardTest, ASecondTimeThrowsAndHarmsNothing) {
  const Tensor w = Leaf({3});
  const Tensor shared = w * 2;
  const Tensor loss = shared * 5;
  Backward(loss);
  EXPECT_THAT([&] { Backward(loss); }, ThrowsMessage<std::logic_error>(HasSubstr("Multiply")));
  EXPECT_THROW(Backward(w * 7 + shared), std::logic_error);
  EXPECT_EQ(Grad(w).Item(), 10);
  int calls = 0;
  AddGradHook(w, [&](const Tensor&) { ++calls; });
  Backward(w * 7);
  EXPECT_EQ(Grad(w).Item(), 17);
  EXPECT_EQ(calls, 1);
}

TEST(BackwardTest, RefusesWhatItCantStartFrom) {
  const Tensor w = Leaf({1, 2});
  EXPECT_THAT([&] { Backward(w * 2); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("float32[2]")));
  EXPECT_THAT([&] { Backward(w * 2, Tensor::Zeros({3})); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("float32[3]"), HasSubstr("float32[2]"))));
  EXPECT_THAT([] { Backward(Tensor::Zeros({})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no tensor that requires")));
  EXPECT_THROW(Backward(Tensor()), std::invalid_argument);
}

// What a node kept is freed when it has run, though its output is still held.
TEST(BackwardTest, FreesWhatNodesKeptAsItGoes) {
  const Tensor w = Leaf({1});
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = kept;
  const Tensor last = Watch(w * 2, [kept] {});
  kept.reset();
  bool alive_in_earlier_node = true;
  const Tensor x = Leaf({1});
  AddGradHook(w, [&](const Tensor&) { alive_in_earlier_node = !alive.expired(); });
  Backward(last);
  EXPECT_FALSE(alive_in_earlier_node);
}

TEST(BackwardTest, AnUnusedTapeIsFreedWithItsLastTensor) {
  const Tensor w = Leaf({1});
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = kept;
  {
    const Tensor y = Watch(w, [kept] {}) * 2;
    kept.reset();
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

Tensor LongChain(const Tensor& w) {
  Tensor y = w;
  for (int i = 0; i < 100000; ++i) y = Relu(y + w);
  return y;
}

TEST(BackwardTest, LongChainsAreWalkedAndFreedWithoutDeepRecursion) {
  const Tensor w = Leaf({1e-3f});
  Backward(LongChain(w));
  EXPECT_EQ(Grad(w).Item(), 100001);
  LongChain(w);  // dropped
}

TEST(BackwardTest, AHooksExceptionIsPassedOnAndLeavesACleanState) {
  const Tensor w = Leaf({1}), v = Leaf({1}), untouched = Leaf({1});
  Backward(untouched * 4);
  bool fail = true, ended = false;
  AddGradHook(w, [&](const Tensor&) {
    OnBackwardEnd([&] { ended = true; });
    if (fail) throw std::runtime_error("peer lost");
  });
  const auto loss = [&] { return (v + untouched) * 2 * w + v; };
  EXPECT_THAT([&] { Backward(loss()); }, ThrowsMessage<std::runtime_error>("peer lost"));
  EXPECT_FALSE(ended);
  EXPECT_FALSE(Grad(v).defined());       // half a sum
  EXPECT_EQ(Grad(untouched).Item(), 4);  // not reached
  EXPECT_THROW(OnBackwardEnd([] {}), std::logic_error);
  EXPECT_TRUE(RequiresGrad(w * 2));

  fail = false;
  for (const Tensor& leaf : {w, v, untouched}) ClearGrad(leaf);
  Backward(loss());
  EXPECT_TRUE(ended);
  EXPECT_EQ(Grad(w).Item(), 4);
  EXPECT_EQ(Grad(v).Item(), 3);
  EXPECT_EQ(Grad(untouched).Item(), 2);
}

TEST(BackwardTest, AKernelsExceptionIsPassedOnAndLeavesACleanState) {
  const Tensor w = Leaf({1});
  bool fail = true;
  const auto loss = [&] {
    return Watch(w * 2,
                 [&] {
                   if (fail) throw std::bad_alloc();
                 }) +
           w;
  };
  int calls = 0;
  AddGradHook(w, [&](const Tensor&) { ++calls; });
  const Tensor failed = loss();
  EXPECT_THROW(Backward(failed), std::bad_alloc);
  EXPECT_FALSE(Grad(w).defined());
  EXPECT_EQ(calls, 0);
  EXPECT_THROW(Backward(failed), std::logic_error);
  fail = false;
  Backward(loss());
  EXPECT_EQ(Grad(w).Item(), 3);
  EXPECT_EQ(calls, 1);
}

TEST(BackwardTest, ThreadsHaveTapesOfTheirOwn) {
  const auto train = [](double factor, double& gradient) {
    const Tensor w = SetRequiresGrad(Tensor::Scalar(1));
    for (int i = 0; i < 1000; ++i) {
      ClearGrad(w);
      Backward(w * factor + w);
    }
    gradient = Grad(w).Item();
  };
  double first = 0, second = 0;
  std::thread other([&] { train(3, first); });
  train(5, second);
  other.join();
  EXPECT_EQ(first, 4);
  EXPECT_EQ(second, 6);
}

}  // namespace
}  // namespace ops
