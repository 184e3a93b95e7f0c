#include "ops/autograd/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/node.h"
#include "ops/autograd/recomputation.h"
#include "ops/tensor/random.h"

namespace ops {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Function = std::function<Tensor(const Tensor&)>;

Tensor RandomLeaf(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return SetRequiresGrad(Tensor::Randn(shape, generator));
}

// How a part of a model is called: as it is, or through Checkpoint.
using Call = std::function<Tensor(const Function&, const Tensor&)>;
Tensor Plainly(const Function& function, const Tensor& x) { return function(x); }

// The gradients of `leaves` after two Backwards of Sum(loss(call)): the second adds to the first.
std::vector<std::vector<float>> Gradients(const std::function<Tensor(const Call&)>& loss,
                                          const std::vector<Tensor>& leaves, const Call& call) {
  for (const Tensor& leaf : leaves) ClearGrad(leaf);
  for (int i = 0; i < 2; ++i) Backward(Sum(loss(call)));
  std::vector<std::vector<float>> gradients;
  for (const Tensor& leaf : leaves) gradients.push_back(Grad(leaf).ToVector<float>());
  return gradients;
}

void ExpectSameGradients(const std::function<Tensor(const Call&)>& loss,
                         const std::vector<Tensor>& leaves) {
  EXPECT_EQ(Gradients(loss, leaves, Checkpoint), Gradients(loss, leaves, Plainly));
}

TEST(CheckpointTest, GradientsAreThoseWithout) {
  const Tensor x = RandomLeaf({5, 7}, 1), w = RandomLeaf({7, 7}, 2), b = RandomLeaf({7}, 3);
  const Function layer = [&](const Tensor& x) { return Tanh(Linear(x, w, b)) * x; };
  ExpectSameGradients([&](const Call& call) { return call(layer, call(layer, x)) * x; }, {x, w, b});
  ExpectSameGradients([&](const Call& call) { return call(layer, x * 3) + x; }, {x, w, b});
}

TEST(CheckpointTest, GradientsOfWhatIsCapturedThoughXRequiresNone) {
  const Tensor x = RandomLeaf({5, 7}, 1).Detach(), w = RandomLeaf({7, 7}, 2);
  ExpectSameGradients(
      [&](const Call& call) {
        const Tensor scale = Sigmoid(w);  // computed outside, used inside and after
        const Function layer = [=](const Tensor& x) {
          return Linear(x, w, {}) * Linear(x, scale, {});
        };
        return call(layer, x) * Sum(scale);
      },
      {w});
}

TEST(CheckpointTest, CheckpointsInsideEachOther) {
  const Tensor x = RandomLeaf({5, 7}, 1), w = RandomLeaf({7, 7}, 2), v = RandomLeaf({7, 7}, 3);
  ExpectSameGradients(
      [&](const Call& call) {
        const Function inner = [=](const Tensor& x) { return Tanh(Linear(x, w, {})) * x; };
        const Function outer = [=](const Tensor& x) {
          return call(inner, Linear(call(inner, x), v, {})) + x;
        };
        return call(outer, call(outer, x));
      },
      {x, w, v});
}

TEST(CheckpointTest, LeavesNoTapeWhereNoneIsNeeded) {
  const Tensor x = RandomLeaf({3}, 1), constant = Tensor::Full({3}, 2);
  const auto twice = [](const Tensor& x) { return x * 2; };
  EXPECT_FALSE(RequiresGrad(Checkpoint(twice, constant)));
  EXPECT_FALSE(RequiresGrad(Checkpoint([&](const Tensor&) { return constant; }, x)));
  EXPECT_TRUE(Checkpoint([](const Tensor& x) { return x; }, x).IsSameAs(x));
  const NoGradGuard guard;
  EXPECT_FALSE(RequiresGrad(Checkpoint(twice, x)));
}

TEST(CheckpointTest, ANoGradGuardInsideStopsGradientsThere) {
  const Tensor x = RandomLeaf({3}, 1), w = RandomLeaf({3}, 2);
  const auto scaled = [&](const Tensor& x) {
    Tensor scale;
    {
      const NoGradGuard guard;
      scale = w * 2;
    }
    return x * scale;
  };
  ExpectSameGradients([&](const Call& call) { return call(scaled, x); }, {x});
  EXPECT_FALSE(Grad(w).defined());
}

TEST(CheckpointTest, HooksRunOnceWhenTheGradientIsComplete) {
  const Tensor x = RandomLeaf({3}, 1), first = RandomLeaf({3}, 2), last = RandomLeaf({3}, 3);
  const auto events_of = [&](const Call& call) {
    std::vector<std::string> events;
    std::vector<std::pair<Tensor, int64_t>> hooks;
    const auto watch = [&](const Tensor& leaf, const char* name) {
      hooks.emplace_back(leaf, AddGradHook(leaf, [&events, name](const Tensor& leaf) {
                           events.push_back(name + std::to_string(Sum(Grad(leaf)).Item()));
                         }));
    };
    watch(x, "x");
    watch(first, "first");
    watch(last, "last");
    for (const Tensor& leaf : {x, first, last}) ClearGrad(leaf);
    const Function layer = [&](const Tensor& x) { return x * first * last * last; };
    Backward(Sum(call(layer, call(layer, x)) * last));
    for (const auto& [leaf, id] : hooks) RemoveGradHook(leaf, id);
    return events;
  };
  const std::vector<std::string> events = events_of(Plainly);
  EXPECT_EQ(events.size(), 3u);
  EXPECT_THAT(events_of(Checkpoint), ElementsAreArray(events));
}

TEST(CheckpointTest, EndCallbacksRunOnceAfterTheOuterWalk) {
  const Tensor x = RandomLeaf({3}, 1);
  std::vector<std::string> events;
  const auto watch = [&](const char* name) {
    return [&, name](const Tensor& x) {
      return Record("Watch", x.Clone(), {x}, [&, name](const Tensor& dy, Node& node) {
        events.push_back(name);
        if (name[0] == 'i') OnBackwardEnd([&] { events.push_back("end"); });
        node.input(0)->Add(dy);
      });
    };
  };
  // Record leaves a tape whoever asks, so there is a function between that doesn't.
  const auto inner = watch("inside");
  const Tensor y = Checkpoint(
      [&](const Tensor& x) { return NeedsTape({x}) ? inner(x) : x.Clone(); }, watch("outside")(x));
  Backward(Sum(y));
  EXPECT_THAT(events, ElementsAre("inside", "outside", "end"));
}

TEST(CheckpointTest, AnExceptionInTheSecondRunLeavesLeavesClean) {
  const Tensor x = RandomLeaf({3}, 1), w = RandomLeaf({3}, 2);
  int calls = 0;
  AddGradHook(w, [&](const Tensor&) { ++calls; });
  for (const bool in_the_walk : {false, true}) {
    bool fail = true;
    const auto layer = [&](const Tensor& x) {
      const Tensor y = x * w;
      if (!NeedsTape({y})) return y * w;
      const auto lose = [&] { throw std::runtime_error("peer lost"); };
      if (fail && !in_the_walk) lose();
      return Record("Lose", y.Clone(), {y},
                    [&, lose](const Tensor& dy, Node& node) {
                      if (fail) lose();
                      node.input(0)->Add(dy);
                    }) *
             w;
    };
    const auto loss = [&] { return Sum(Checkpoint(layer, x * 2) * w); };
    const Tensor failed = loss();
    EXPECT_THAT([&] { Backward(failed); }, ThrowsMessage<std::runtime_error>("peer lost"));
    EXPECT_FALSE(Grad(x).defined());
    EXPECT_FALSE(Grad(w).defined());  // half a sum
    EXPECT_EQ(calls, 0);
    EXPECT_TRUE(RequiresGrad(x * 2));
    EXPECT_FALSE(IsRecomputing());
    EXPECT_THROW(OnBackwardEnd([] {}), std::logic_error);

    fail = false;
    Backward(loss());
    EXPECT_EQ(std::exchange(calls, 0), 1);
    const std::vector<float> gradient = Grad(w).ToVector<float>();
    ClearGrad(w);
    Backward(Sum(x * 2 * w * w * w));
    const std::vector<float> expected = Grad(w).ToVector<float>();
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-5);
    calls = 0;
    for (const Tensor& leaf : {x, w}) ClearGrad(leaf);
  }
}

TEST(CheckpointTest, NumbersAreDrawnOnce) {
  const Tensor x = RandomLeaf({1}, 1);
  uint64_t draws = 0;
  std::vector<uint64_t> drawn;
  const Function draw = [&](const Tensor& x) {
    drawn.push_back(DrawOnce([&] { return draws++; }));
    return x * 2;
  };
  const Function nested = [&](const Tensor& x) { return draw(Checkpoint(draw, draw(x))); };
  Backward(Checkpoint(nested, x));
  EXPECT_EQ(draws, 3u);
  // The first run, the second, and the second of the one inside.
  EXPECT_THAT(drawn, ElementsAre(0, 1, 2, 0, 1, 2, 1));
}

TEST(CheckpointTest, ASecondRunThatDrawsMoreIsRefused) {
  const Tensor x = RandomLeaf({1}, 1);
  const Tensor y = Checkpoint(
      [](const Tensor& x) {
        if (IsRecomputing()) DrawOnce([] { return 1; });
        return x * 2;
      },
      x);
  EXPECT_THAT([&] { Backward(y); },
              ThrowsMessage<std::logic_error>(HasSubstr("the same each time")));
}

TEST(CheckpointTest, RunningStatisticsMoveOnce) {
  const Tensor x = RandomLeaf({8, 2}, 1);
  const auto running_after = [&](const Call& call) {
    const Tensor mean = Tensor::Zeros({2}), variance = Tensor::Zeros({2});
    const Function norm = [&](const Tensor& x) { return BatchNorm(x, {}, {}, mean, variance) * x; };
    ExpectSameGradients([&](const Call& call) { return call(norm, x); }, {x});
    mean.FillZero();
    variance.FillZero();
    // Within another, it is computed three times.
    Backward(Sum(call([&](const Tensor& x) { return call(norm, x * 2); }, x)));
    return std::vector{mean.ToVector<float>(), variance.ToVector<float>()};
  };
  EXPECT_EQ(running_after(Checkpoint), running_after(Plainly));
}

// Memory that says how much of it there is, and how much there was at most.
struct Blocks {
  int live = 0, peak = 0;

  Tensor New(const Shape& shape) {
    peak = std::max(peak, ++live);
    const Tensor owner = Tensor::Empty(shape);
    return Tensor::Wrap(Memory(owner.raw_data(), [this, owner](std::byte*) { --live; }), shape);
  }
  // The identity, which keeps its output for the way back.
  Tensor Keep(const Tensor& x) {
    const Tensor y = New(x.shape());
    y.CopyFrom(x);
    if (!NeedsTape({x})) return y;
    return Record("Keep", y, {x},
                  [y = Saved(y)](const Tensor& dy, Node& node) { node.input(0)->Add(dy); });
  }
};

TEST(CheckpointTest, ADeepChainNeedsTheMemoryOfOnePartAndTheInputsOfAll) {
  const auto peak_of = [](const Call& call) {
    Blocks blocks;
    const Tensor x = SetRequiresGrad(Tensor::Full({4}, 1));
    const Function part = [&](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < 8; ++i) y = blocks.Keep(y);
      return y;
    };
    Tensor y = x;
    for (int i = 0; i < 8; ++i) y = call(part, y);
    Backward(Sum(y));
    EXPECT_THAT(Grad(x).ToVector<float>(), Each(1));
    y = {};
    EXPECT_EQ(blocks.live, 0);
    return blocks.peak;
  };
  EXPECT_EQ(peak_of(Plainly), 64);
  EXPECT_LE(peak_of(Checkpoint), 8 + 8 + 1);
}

TEST(CheckpointTest, LongChainsOfCheckpointsAreFreedWithoutDeepRecursion) {
  const Tensor w = SetRequiresGrad(Tensor::Full({1}, 1e-3));
  const auto chain = [&] {
    Tensor y = w;
    for (int i = 0; i < 30000; ++i) y = Checkpoint([](const Tensor& x) { return Relu(x); }, y);
    return y;
  };
  Backward(chain());
  EXPECT_EQ(Grad(w).Item(), 1);
  chain();  // dropped
}

}  // namespace
}  // namespace ops
