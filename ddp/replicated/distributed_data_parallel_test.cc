// Right values: what ranks as threads, over the default backend, train together.
#include "ddp/replicated/distributed_data_parallel.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::Generator;
using ops::NamedTensor;
using ops::Tensor;

constexpr int64_t kIn = 5, kOut = 3, kBatch = 4;

// Every rank begins with weights of its own.
struct Net : ops::nn::Sequential {
  explicit Net(int rank) {
    Generator generator(1, rank);
    const ops::nn::LinearOptions options = {.generator = &generator};
    Add<ops::nn::Linear>(kIn, 300, options);
    Add<ops::nn::Relu>();
    Add<ops::nn::Linear>(300, 7, options);
    Add<ops::nn::Linear>(7, kOut, options);
  }
};

Tensor Inputs(int rank, int step = 0) {
  Generator generator(/*seed=*/100 + step, rank);
  return Tensor::Randn({kBatch, kIn}, generator);
}

Tensor Targets(int rank, int step = 0) {
  Generator generator(/*seed=*/200 + step, rank);
  return Tensor::Randn({kBatch, kOut}, generator);
}

Tensor Loss(ops::nn::Module& model, int rank, int step = 0) {
  return MseLoss(model.Forward(Inputs(rank, step)), Targets(rank, step));
}

// All gradients, one after the other.
std::vector<float> Gradients(const ops::nn::Module& model) {
  std::vector<float> all;
  for (const NamedTensor& parameter : model.Parameters()) {
    const auto values = Grad(parameter.tensor).ToVector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

using PerRank = std::vector<std::vector<float>>;

void ExpectNear(const std::vector<float>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], 1e-6 + 1e-5 * std::abs(expected[i])) << "element " << i;
  }
}

std::vector<double> Average(const PerRank& ranks) {
  std::vector<double> average(ranks[0].size());
  for (const auto& rank : ranks) {
    for (size_t i = 0; i < rank.size(); ++i) average[i] += static_cast<double>(rank[i]);
  }
  for (double& value : average) value /= static_cast<double>(ranks.size());
  return average;
}

class WorldTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, WorldTest, testing::Values(1, 2, 3, 4));

TEST_P(WorldTest, GradientsAreTheAverageAndBitEqual) {
  const int world = GetParam();
  PerRank local(world), averaged(world);
  RunRanks(world, [&](TestRank& rank) {
    const auto group = rank.Join();
    Net net(rank.rank());
    DistributedDataParallel replicated(net, *group);
    {
      DistributedDataParallel::NoSync no_sync(replicated);
      Backward(Loss(replicated, rank.rank()));
    }
    local[rank.rank()] = Gradients(net);
    replicated.ZeroGrad();
    Backward(Loss(replicated, rank.rank()));
    averaged[rank.rank()] = Gradients(net);
  });
  ExpectNear(averaged[0], Average(local));
  for (const auto& rank : averaged) EXPECT_EQ(rank, averaged[0]);
}

TEST_P(WorldTest, BucketSizesDoNotChangeABit) {
  const int world = GetParam();
  std::vector<PerRank> by_size;
  for (const int64_t bytes : {1, 1 << 10, 25 << 20}) {
    PerRank& gradients = by_size.emplace_back(world);
    RunRanks(world, [&](TestRank& rank) {
      const auto group = rank.Join();
      Net net(rank.rank());
      DistributedDataParallel replicated(net, *group,
                                         {.bucket_bytes = bytes, .first_bucket_bytes = bytes});
      Backward(Loss(replicated, rank.rank()));
      gradients[rank.rank()] = Gradients(net);
    });
  }
  EXPECT_EQ(by_size[0], by_size[2]);
  EXPECT_EQ(by_size[1], by_size[2]);
}

// Rows of all ranks, one rank after the other.
Tensor Join(int world, int step, Tensor (*part)(int, int)) {
  const Tensor first = part(0, step);
  Tensor all = Tensor::Empty(first.shape().DropFirst().Prepend(world * kBatch));
  for (int rank = 0; rank < world; ++rank) {
    all.Slice(rank * kBatch, (rank + 1) * kBatch).CopyFrom(part(rank, step));
  }
  return all;
}

TEST_P(WorldTest, TrainsLikeOneProcessOnTheWholeBatch) {
  const int world = GetParam();
  constexpr int kSteps = 5;
  const ops::optim::SgdOptions options = {.learning_rate = 0.1, .momentum = 0.9};
  const auto weights = [](const ops::nn::Module& model) {
    std::vector<float> all;
    for (const NamedTensor& parameter : model.Parameters()) {
      for (float value : parameter.tensor.elements<float>()) all.push_back(value);
    }
    return all;
  };

  Net alone(/*rank=*/0);
  ops::optim::Sgd optimizer(alone.Parameters(), options);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.ZeroGrad();
    Backward(MseLoss(alone.Forward(Join(world, step, Inputs)), Join(world, step, Targets)));
    optimizer.Step();
  }

  PerRank trained(world);
  RunRanks(world, [&](TestRank& rank) {
    const auto group = rank.Join();
    Net net(rank.rank());
    DistributedDataParallel replicated(net, *group);
    ops::optim::Sgd optimizer(replicated.Parameters(), options);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.ZeroGrad();
      Backward(Loss(replicated, rank.rank(), step));
      optimizer.Step();
    }
    trained[rank.rank()] = weights(net);
  });
  const auto expected = weights(alone);
  ExpectNear(trained[0], std::vector<double>(expected.begin(), expected.end()));
  for (const auto& rank : trained) EXPECT_EQ(rank, trained[0]);
}

// A letter a micro-batch: n, Backward within NoSync; s, Backward that sends; z, ZeroGrad.
class AccumulationTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sequences, AccumulationTest,
                         testing::Values("s", "ns", "nns", "ss", "sns", "snn", "nszs", "sznns"));

TEST_P(AccumulationTest, SumsAreAveraged) {
  constexpr int kWorld = 2;
  const std::string sequence = GetParam();
  std::vector<PerRank> local(sequence.size(), PerRank(kWorld));  // of each micro-batch
  PerRank result(kWorld);
  RunRanks(kWorld, [&](TestRank& rank) {
    const auto group = rank.Join();
    Net net(rank.rank());
    DistributedDataParallel replicated(net, *group);
    for (size_t i = 0; i < sequence.size(); ++i) {
      DistributedDataParallel::NoSync no_sync(replicated);
      replicated.ZeroGrad();
      Backward(Loss(replicated, rank.rank(), i));
      local[i][rank.rank()] = Gradients(net);
    }
    replicated.ZeroGrad();
    for (size_t i = 0; i < sequence.size(); ++i) {
      if (sequence[i] == 'z') {
        replicated.ZeroGrad();
        continue;
      }
      std::optional<DistributedDataParallel::NoSync> no_sync;
      if (sequence[i] == 'n') no_sync.emplace(replicated);
      Backward(Loss(replicated, rank.rank(), i));
    }
    result[rank.rank()] = Gradients(net);
  });

  std::array<std::vector<double>, kWorld> expected;
  expected.fill(std::vector<double>(result[0].size()));
  for (size_t i = 0; i < sequence.size(); ++i) {
    for (size_t e = 0; e < result[0].size(); ++e) {
      double& on0 = expected[0][e];
      double& on1 = expected[1][e];
      if (sequence[i] == 'z') {
        on0 = on1 = 0;
        continue;
      }
      on0 += static_cast<double>(local[i][0][e]);
      on1 += static_cast<double>(local[i][1][e]);
      if (sequence[i] == 's') on0 = on1 = (on0 + on1) / 2;
    }
  }
  for (int rank = 0; rank < kWorld; ++rank) ExpectNear(result[rank], expected[rank]);
}

// Not where the forward pass ran.
TEST(NoSyncTest, WhatItSaysAtBackwardDecides) {
  constexpr int kWorld = 2;
  PerRank inside(kWorld), outside(kWorld);
  RunRanks(kWorld, [&](TestRank& rank) {
    const auto group = rank.Join();
    Net net(rank.rank());
    DistributedDataParallel replicated(net, *group);
    Tensor loss = Loss(replicated, rank.rank());
    {
      DistributedDataParallel::NoSync no_sync(replicated);
      Backward(loss);
      inside[rank.rank()] = Gradients(net);
      replicated.ZeroGrad();
      loss = Loss(replicated, rank.rank());
    }
    Backward(loss);
    outside[rank.rank()] = Gradients(net);
  });
  EXPECT_NE(inside[0], inside[1]);
  EXPECT_EQ(outside[0], outside[1]);
  ExpectNear(outside[0], Average(inside));
}

// Step A reaches one parameter without sending, step B the other with: both travel.
TEST(NoSyncTest, ParametersOfEarlierStepsAreSentToo) {
  struct Two : ops::nn::Module {
    Two() {
      RegisterParameter("a", a);
      RegisterParameter("b", b);
    }
    Tensor a = Tensor::Full({1}, 1), b = Tensor::Full({1}, 1);
  };
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    DistributedDataParallel replicated(model, *group);
    const double factor = rank.rank() + 1;
    {
      DistributedDataParallel::NoSync no_sync(replicated);
      Backward(Sum(model.a * factor));
    }
    Backward(Sum(model.b * factor));
    EXPECT_EQ(Grad(model.a).Item(), 1.5);
    EXPECT_EQ(Grad(model.b).Item(), 1.5);
  });
}

// Also where the flag rides with marks of use, and where a hook makes it travel alone.
TEST_P(WorldTest, AFlagIsSeenByAllRanksAfterTheSameStep) {
  const CommunicationHook hook = [](ProcessGroup& group, const GradientBucket& bucket) {
    return group.AllReduce(BufferOf(bucket.gradients), ReduceOp::kSum);
  };
  const std::vector<DistributedDataParallelOptions> settings = {
      {}, {.find_unused_parameters = true}, {.hook = hook}};
  for (const DistributedDataParallelOptions& options : settings) {
    RunRanks(GetParam(), [&](TestRank& rank) {
      const auto group = rank.Join();
      Net net(rank.rank());
      DistributedDataParallel replicated(net, *group, options);
      std::vector<bool> seen;
      for (int step = 0; step < 4; ++step) {
        if (step == 2 && rank.rank() == GetParam() - 1) replicated.RaiseFlag();
        net.ZeroGrad();
        Backward(Loss(replicated, rank.rank(), step));
        seen.push_back(replicated.any_flag_is_raised());
      }
      EXPECT_EQ(seen, (std::vector<bool>{false, false, true, true}));
    });
  }
}

TEST(WorldOfOneTest, HasNoBuckets) {
  RunRanks(1, [](TestRank& rank) {
    const auto group = rank.Join();
    Net net(0);
    DistributedDataParallel replicated(net, *group);
    EXPECT_FALSE(GradPlace(net.Parameters()[0].tensor).defined());
    Backward(Loss(replicated, 0));
    EXPECT_EQ(replicated.exposed_communication_seconds(), 0);
  });
}

TEST(DistributedDataParallelTest, IsAModuleAroundTheModel) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    Net net(rank.rank());
    DistributedDataParallel replicated(net, *group);
    EXPECT_EQ(replicated.Parameters()[0].name, "module.0.weight");
    replicated.Eval();
    EXPECT_FALSE(net.training());
    Backward(Loss(replicated, rank.rank()));
    EXPECT_GT(replicated.exposed_communication_seconds(), 0);
  });
}

// Group, wrapper and model in each order, after a step.
TEST(DistributedDataParallelTest, PartsEndInAnyOrder) {
  for (const std::string order : {"gwm", "gmw", "wgm", "wmg", "mgw", "mwg"}) {
    for (int times = 0; times < 3; ++times) {
      RunRanks(2, [&](TestRank& rank) {
        auto group = rank.Join();
        auto net = std::make_unique<Net>(rank.rank());
        auto replicated = std::make_unique<DistributedDataParallel>(*net, *group);
        Backward(Loss(*replicated, rank.rank()));
        const Tensor parameter = net->Parameters()[0].tensor;
        const auto gradient = Grad(parameter).ToVector<float>();
        for (char part : order) {
          rank.Note(order + ": ending " + part);
          if (part == 'g') group.reset();
          if (part == 'w') replicated.reset();
          if (part == 'm') net.reset();
        }
        EXPECT_EQ(Grad(parameter).ToVector<float>(), gradient);
      });
    }
  }
}

}  // namespace
}  // namespace ddp
