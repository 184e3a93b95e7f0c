// Ranks with different numbers of batches.
#include "ddp/replicated/join.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/errors.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/optim/sgd.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using ops::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using Options = DistributedDataParallelOptions;

struct One : ops::nn::Module {
  One() {
    RegisterParameter("w", w);
    RegisterBuffer("count", count);
  }
  Tensor Forward(const Tensor& x) override {
    count.Fill(count.Item() + 1);
    return Sum(w * x);
  }
  Tensor w = Tensor::Full({1}, 0), count = Tensor::Zeros({1});
};

// Rank 0 has 2 batches with gradient 1, rank 1 has 4 with gradient 2.
class JoinTest : public testing::Test {
 protected:
  struct Result {
    std::vector<float> gradients;  // of each step
    float weight = 0;
    float count = 0;
  };

  static std::vector<Result> Train(const Options& options, const JoinOptions& join,
                                   bool steps_along, int accumulate = 1) {
    std::vector<Result> results(2);
    RunRanks(2, [&](TestRank& rank) {
      const auto group = rank.Join();
      One model;
      DistributedDataParallel replicated(model, *group, options);
      ops::optim::Sgd optimizer(model.Parameters(), {.learning_rate = 1, .momentum = 0.5});
      Result& result = results[rank.rank()];
      const Tensor x = Tensor::Full({1}, rank.rank() + 1);
      const auto update = [&] {
        result.gradients.push_back(static_cast<float>(Grad(model.w).Item()));
        optimizer.Step();
        optimizer.ZeroGrad();
      };
      JoinOptions mine = join;
      if (steps_along) mine.after_backward = update;
      ddp::Join(
          replicated,
          [&] {
            const int batches = rank.rank() == 0 ? 2 : 4;
            for (int i = 0; i < batches; ++i) {
              for (int micro = 1; micro < accumulate; ++micro) {
                const DistributedDataParallel::NoSync no_sync(replicated);
                Backward(replicated.Forward(x));
              }
              if (options.average == Options::Average::kWeights) replicated.SetWeight(1);
              Backward(replicated.Forward(x));
              update();
            }
          },
          mine);
      result.weight = static_cast<float>(model.w.Item());
      result.count = static_cast<float>(model.count.Item());
    });
    return results;
  }
};

TEST_F(JoinTest, TheOthersGoOnAndAllEndEqual) {
  const auto results = Train({}, {}, /*steps_along=*/false);
  EXPECT_THAT(results[0].gradients, ElementsAre(1.5, 1.5));
  EXPECT_THAT(results[1].gradients, ElementsAre(1.5, 1.5, 1, 1));
  EXPECT_EQ(results[0].weight, results[1].weight);
  EXPECT_EQ(results[0].count, 4);
  EXPECT_EQ(results[1].count, 4);
}

TEST_F(JoinTest, AveragesOfThoseWhoAreThere) {
  const auto results = Train({}, {.divide_by_active = true}, /*steps_along=*/false);
  EXPECT_THAT(results[1].gradients, ElementsAre(1.5, 1.5, 2, 2));
}

TEST_F(JoinTest, WeightsCount) {
  const auto results = Train({.average = Options::Average::kWeights}, {}, /*steps_along=*/false);
  EXPECT_THAT(results[1].gradients, ElementsAre(1.5, 1.5, 2, 2));
}

TEST_F(JoinTest, StepsAlong) {
  const auto results = Train({}, {}, /*steps_along=*/true);
  EXPECT_THAT(results[0].gradients, ElementsAre(1.5, 1.5, 1, 1));
  EXPECT_EQ(results[0].weight, results[1].weight);
}

TEST_F(JoinTest, WithAccumulationHooksAndUnusedParameters) {
  const CommunicationHook to_fp16 = [](ProcessGroup& group, const GradientBucket& bucket) {
    const Tensor small = bucket.gradients.To(ops::DType::kFloat16);
    return Then(group.AllReduce(BufferOf(small), ReduceOp::kSum),
                [small, all = bucket.gradients] { all.CopyFrom(small); });
  };
  for (const bool find_unused : {false, true}) {
    const auto results = Train({.find_unused_parameters = find_unused, .hook = to_fp16}, {},
                               /*steps_along=*/true, /*accumulate=*/2);
    EXPECT_THAT(results[0].gradients, ElementsAre(3, 3, 2, 2));
    EXPECT_EQ(results[0].weight, results[1].weight);
  }
}

TEST_F(JoinTest, ARankWithoutAnyBatch) {
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    One model;
    DistributedDataParallel replicated(model, *group);
    ddp::Join(replicated, [&] {
      if (rank.rank() == 0) return;
      Backward(replicated.Forward(Tensor::Full({1}, 3)));
    });
    EXPECT_EQ(Grad(model.w).Item(), 2);
    EXPECT_EQ(model.count.Item(), 1);
  });
}

TEST_F(JoinTest, ABodyThatThrowsIsToldToAll) {
  std::vector<std::string> messages(3);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    One model;
    DistributedDataParallel replicated(model, *group);
    try {
      ddp::Join(replicated, [&] {
        for (int i = 0; i < rank.rank(); ++i) Backward(replicated.Forward(Tensor::Full({1}, 1)));
        if (rank.rank() == 2) throw std::runtime_error("disk full");
      });
    } catch (const std::runtime_error& error) {
      messages[rank.rank()] = error.what();
    }
  });
  EXPECT_EQ(messages[2], "disk full");
  for (int rank : {0, 1}) EXPECT_THAT(messages[rank], HasSubstr("lost rank 2: disk full"));
}

TEST_F(JoinTest, WithoutItTheRankThatEndedIsNamed) {
  std::string message;
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join({.timeout = 1s});
    One model;
    DistributedDataParallel replicated(model, *group);
    for (int i = 0; i < 3 + rank.rank(); ++i) {
      try {
        Backward(replicated.Forward(Tensor::Full({1}, 1)));
      } catch (const TimeoutError& error) {
        message = error.what();
      }
    }
    if (rank.rank() == 0) std::this_thread::sleep_for(3s);
  });
  EXPECT_THAT(message, HasSubstr("waited 1 s for rank 0"));
}

}  // namespace
}  // namespace ddp
