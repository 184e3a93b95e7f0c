// Programs that other libraries were reported to calculate wrongly, with their right numbers, as
// layers, hooks, accumulation and the wrapper work together. Ranks are threads, over TCP and over
// the default backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/communication_hooks.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ddp/replicated/testing.h"
#include "ops/autograd/checkpoint.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::Tensor;
using testing::Each;
using testing::ElementsAre;
using Options = DistributedDataParallelOptions;

// w x, summed over the batch [rows].
struct Scale : ops::nn::Module {
  Scale() { RegisterParameter("w", w); }
  Tensor Forward(const Tensor& x) override { return Sum(w * x); }
  Tensor w = Tensor::Full({1}, 1);
};

class ReportedCasesTest : public GroupTest {};
INSTANTIATE_TEST_SUITE_P(Backends, ReportedCasesTest, ReplicatedSettings(),
                         [](const auto& info) { return info.param.Name(); });

// pytorch#109191: twice the same block, computed again in Backward.
TEST_P(ReportedCasesTest, CheckpointsGiveTheGradientsThatThereAreWithout) {
  struct Net : ops::nn::Module {
    explicit Net(bool checkpoints) : checkpoints(checkpoints) {
      Register("block", block);
      Register("head", head);
    }
    Tensor Forward(const Tensor& x) override {
      const auto apply = [this](const Tensor& x) { return Gelu(block.Forward(x)); };
      if (!checkpoints) return head.Forward(apply(apply(x)));
      return head.Forward(ops::Checkpoint(apply, ops::Checkpoint(apply, x)));
    }
    const bool checkpoints;
    ops::nn::Linear block{5, 5}, head{5, 2};
  };
  Run([](TestRank& rank, ProcessGroup& group) {
    std::vector<std::vector<float>> gradients;
    for (const bool checkpoints : {false, true}) {
      ops::Generator::ForThisThread() = ops::Generator(7);
      Net net(checkpoints);
      DistributedDataParallel replicated(net, group, {.bucket_bytes = 1, .first_bucket_bytes = 1});
      ops::Generator random(8, rank.rank());
      Backward(Sum(replicated.Forward(Tensor::Randn({3, 5}, random))));
      for (const auto& [name, tensor] : net.Parameters()) {
        gradients.push_back(Grad(tensor).ToVector<float>());
      }
    }
    ASSERT_EQ(gradients.size(), 8u);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(gradients[i], gradients[4 + i]);
  });
}

// build-nanogpt#30, FunASR#3472: four micro-batches whose forward passes all run before the last
// one's Backward is chosen to be the one that sends.
TEST_P(ReportedCasesTest, MicroBatchesAreOneBatchWhereverTheForwardPassesRan) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    Scale model;
    DistributedDataParallel replicated(model, group);
    std::vector<Tensor> losses;
    for (int micro = 0; micro < 4; ++micro) {
      losses.push_back(replicated.Forward(Tensor::Full({1}, 4 * rank.rank() + micro + 1)) / 4);
    }
    {
      const DistributedDataParallel::NoSync no_sync(replicated);
      for (int micro = 0; micro < 3; ++micro) Backward(losses[micro]);
    }
    Backward(losses[3]);
    EXPECT_EQ(Grad(model.w).Item(), (4 * size() + 1) / 2.0);  // of 1, 2, ... 4 size()
  });
}

// pytorch PRs #57410, #59522: the sum of the ranks' gradients would be infinite in float16.
TEST_P(ReportedCasesTest, SixteenBitGradientsDoNotOverflowOnTheWay) {
  Run([](TestRank&, ProcessGroup& group) {
    for (const ops::DType dtype : {ops::DType::kFloat16, ops::DType::kBFloat16}) {
      Scale model;
      DistributedDataParallel replicated(model, group, {.hook = CompressTo(dtype)});
      Backward(replicated.Forward(Tensor::Full({1}, 40000)));
      EXPECT_NEAR(Grad(model.w).Item(), 40000, dtype == ops::DType::kFloat16 ? 16 : 256);
    }
  });
}

// Rank 1 sees another batch; its running mean is rank 0's all the same.
TEST_P(ReportedCasesTest, RunningStatisticsAreEqualAfterEachStep) {
  Run([](TestRank& rank, ProcessGroup& group) {
    ops::nn::BatchNorm1d model(1);
    DistributedDataParallel replicated(model, group);
    for (int step = 0; step < 2; ++step) {
      Backward(Sum(replicated.Forward(Tensor::Full({4, 1}, 10 * rank.rank() + 10))));
    }
    EXPECT_NEAR(model.running_mean.Item(), 1.9, 1e-6);
  });
}

TEST_P(ReportedCasesTest, BuffersAreAveragedWhenAsked) {
  struct Counting : Scale {
    Counting() {
      RegisterBuffer("mean", mean);
      RegisterBuffer("count", count);
    }
    Tensor mean = Tensor::Zeros({2}), count = Tensor::Zeros({1}, {.dtype = ops::DType::kInt64});
  };
  Run([&](TestRank& rank, ProcessGroup& group) {
    Counting model;
    DistributedDataParallel replicated(model, group, {.buffers = Options::Buffers::kAverage});
    model.mean.Fill(rank.rank() + 1);
    model.count.Fill(rank.rank() + 5);
    Backward(replicated.Forward(Tensor::Zeros({1})));
    EXPECT_THAT(model.mean.ToVector<float>(), Each((size() + 1) / 2.0));
    EXPECT_THAT(model.count.ToVector<int64_t>(), ElementsAre(5));  // rank 0's
  });
}

}  // namespace
}  // namespace ddp
