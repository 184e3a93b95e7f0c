// Ranks as threads against one process that has the whole batch.
#include "ddp/replicated/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Generator;
using ops::Shape;
using ops::Tensor;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;
using Doubles = std::vector<double>;

constexpr int64_t kChannels = 5;

struct Net : ops::nn::Module {
  Net() {
    first.weight.CopyFrom(Tensor::Randn({kChannels}, generator));
    first.bias.CopyFrom(Tensor::Randn({kChannels}, generator));
    Register("first", first);
    Register("fc", fc);
    Register("second", second);
  }
  Tensor Forward(const Tensor& x) override { return second.Forward(fc.Forward(first.Forward(x))); }

  Generator generator{3};
  ops::nn::BatchNorm1d first{kChannels, {.relu = true}};
  ops::nn::Linear fc{kChannels, 3, {.generator = &generator}};
  ops::nn::BatchNorm1d second{3};
};

// Rows [begin, end) of a batch far from zero, as large as all ranks' together.
Tensor Rows(int64_t begin, int64_t end, int step) {
  Generator generator(10 + step);
  return (Tensor::Randn({32, kChannels}, generator) * 3.0 + 100.0).Slice(begin, end).Clone();
}
Tensor Gradients(int64_t begin, int64_t end) {
  Generator generator(20);
  return Tensor::Randn({32, 3}, generator).Slice(begin, end).Clone();
}

// What one step over some rows leaves behind.
struct Results {
  Doubles outputs, input_gradients, parameter_gradients, statistics, evaluation;
};

void Append(const Tensor& tensor, Doubles& values) {
  const Doubles more = tensor.ToVector<double>();
  values.insert(values.end(), more.begin(), more.end());
}

// Two steps, so that running statistics move twice; gradients are those of the second.
Results Train(Net& net, int64_t begin, int64_t end) {
  Results results;
  for (int step = 0; step < 2; ++step) {
    net.ZeroGrad();
    const Tensor x = SetRequiresGrad(Rows(begin, end, step));
    const Tensor y = net.Forward(x);
    Backward(y, Gradients(begin, end));
    results.outputs = y.ToVector<double>();
    results.input_gradients = Grad(x).ToVector<double>();
  }
  for (const auto& [name, tensor] : net.Parameters()) {
    Append(Grad(tensor), results.parameter_gradients);
  }
  for (const auto& [name, tensor] : net.Buffers()) Append(tensor, results.statistics);
  net.Eval();
  results.evaluation = net.Forward(Rows(begin, end, 0)).ToVector<double>();
  return results;
}

struct Spread {
  std::string name;
  std::vector<int64_t> rows;  // of each rank
};
void PrintTo(const Spread& spread, std::ostream* out) { *out << spread.name; }

class JoinedBatchTest : public testing::TestWithParam<Spread> {};
INSTANTIATE_TEST_SUITE_P(
    Rows, JoinedBatchTest,
    testing::Values(Spread{"EvenlyOn2", {16, 16}}, Spread{"EvenlyOn4", {8, 8, 8, 8}},
                    Spread{"UnevenlyOn3", {1, 20, 11}}, Spread{"NoneOnOneOf3", {15, 0, 17}},
                    Spread{"NoneOnTheFirstOf4", {0, 1, 30, 1}}, Spread{"AllOnOne", {32, 0}}),
    [](const auto& info) { return info.param.name; });

TEST_P(JoinedBatchTest, IsBatchNormOfTheJoinedBatch) {
  const std::vector<int64_t>& rows = GetParam().rows;
  std::vector<Results> of_rank(rows.size());
  RunRanks(static_cast<int>(rows.size()), [&](TestRank& rank) {
    const auto group = rank.Join();
    Net net;
    SynchronizeBatchNorm(net, *group);
    int64_t begin = 0;
    for (int r = 0; r < rank.rank(); ++r) begin += rows[r];
    of_rank[rank.rank()] = Train(net, begin, begin + rows[rank.rank()]);
  });
  Net net;
  const Results whole = Train(net, 0, 32);
  Results joined = of_rank[0];
  for (size_t r = 1; r < of_rank.size(); ++r) {
    const Results& own = of_rank[r];
    EXPECT_EQ(own.statistics, joined.statistics) << "rank " << r;
    joined.outputs.insert(joined.outputs.end(), own.outputs.begin(), own.outputs.end());
    joined.input_gradients.insert(joined.input_gradients.end(), own.input_gradients.begin(),
                                  own.input_gradients.end());
    joined.evaluation.insert(joined.evaluation.end(), own.evaluation.begin(), own.evaluation.end());
    for (size_t i = 0; i < own.parameter_gradients.size(); ++i) {
      joined.parameter_gradients[i] += own.parameter_gradients[i];
    }
  }
  EXPECT_THAT(joined.outputs, Pointwise(DoubleNear(2e-5), whole.outputs));
  EXPECT_THAT(joined.input_gradients, Pointwise(DoubleNear(2e-5), whole.input_gradients));
  EXPECT_THAT(joined.parameter_gradients, Pointwise(DoubleNear(2e-4), whole.parameter_gradients));
  EXPECT_THAT(joined.statistics, Pointwise(DoubleNear(2e-5), whole.statistics));
  EXPECT_THAT(joined.evaluation, Pointwise(DoubleNear(2e-5), whole.evaluation));
}

TEST(SyncBatchNormTest, RunningStatisticsOfTwoConstantBatches) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    ops::nn::BatchNorm1d norm(1);
    SynchronizeBatchNorm(norm, *group);
    const Tensor x = Tensor::Full({4, 1}, 10.0 * rank.rank());
    norm.Forward(x);
    norm.Forward(x);
    EXPECT_FLOAT_EQ(norm.running_mean.Item(), 0.95);
    // Of four values 0 and four values 10: 25 * 8 / 7.
    EXPECT_FLOAT_EQ(norm.running_var.Item(), 0.81 + 0.19 * 200 / 7);
    EXPECT_EQ(norm.num_batches_tracked.Item(), 2);
  });
}

// Values whose mean is far larger than their differences.
TEST(SyncBatchNormTest, KeepsItsPrecisionFarFromZero) {
  std::vector<Doubles> outputs(2);
  const auto images = [](int rank) {
    Generator generator(7, rank);
    const Tensor noise = Tensor::Randn({3, 2, 4, 4}, generator, {.dtype = DType::kFloat64});
    return noise * 1e-3 + 1e6;
  };
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    ops::nn::BatchNorm2d norm(2, {.epsilon = 0, .dtype = DType::kFloat64});
    SynchronizeBatchNorm(norm, *group);
    outputs[rank.rank()] = norm.Forward(images(rank.rank())).ToVector<double>();
  });
  const Tensor whole = ops::Concatenate({images(0), images(1)});
  const Tensor expected = ops::BatchNorm(whole, {}, {}, {}, {}, {.epsilon = 0});
  outputs[0].insert(outputs[0].end(), outputs[1].begin(), outputs[1].end());
  EXPECT_THAT(outputs[0], Pointwise(DoubleNear(1e-6), expected.ToVector<double>()));
}

// One rank alone could not evaluate if anything were sent.
TEST(SyncBatchNormTest, EvaluationSendsNothing) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    ops::nn::BatchNorm1d norm(1), without_running(1, {.track_running_stats = false});
    SynchronizeBatchNorm(norm, *group);
    SynchronizeBatchNorm(without_running, *group);
    norm.Eval();
    without_running.Eval();
    const Tensor x = SetRequiresGrad(Tensor::FromVector<float>({1, 3}, {2, 1}));
    if (rank.rank() == 0) {
      Backward(Sum(norm.Forward(x)));
      EXPECT_THAT(without_running.Forward(x).ToVector<double>(),
                  Pointwise(DoubleNear(1e-5), Doubles{-1, 1}));
    }
    group->Barrier()->Wait();
  });
}

TEST(SyncBatchNormTest, TooFewValuesAreAnErrorOnAllRanks) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    ops::nn::BatchNorm1d norm(1);
    SynchronizeBatchNorm(norm, *group);
    EXPECT_THROW(norm.Forward(Tensor::Zeros({rank.rank(), 1})), std::invalid_argument);
    EXPECT_EQ(norm.running_var.Item(), 1);
    // One value on each rank is enough.
    EXPECT_FLOAT_EQ(norm.Forward(Tensor::Full({1, 1}, 2.0 * rank.rank())).Item(),
                    rank.rank() == 0 ? -0.999995F : 0.999995F);
  });
}

TEST(SyncBatchNormTest, TrainsUnderDistributedDataParallel) {
  std::vector<Doubles> gradients(3);
  RunRanks(3, [&](TestRank& rank) {
    auto group = rank.Join();
    Net net;
    SynchronizeBatchNorm(net, *group);
    DistributedDataParallel replicated(net, *group, {.bucket_bytes = 1, .first_bucket_bytes = 1});
    const int64_t begin = 10 * rank.rank();
    Backward(replicated.Forward(Rows(begin, begin + 10, 1)), Gradients(begin, begin + 10));
    for (const auto& [name, tensor] : net.Parameters()) {
      Append(Grad(tensor), gradients[rank.rank()]);
    }
  });
  Net net;
  Backward(net.Forward(Rows(0, 30, 1)), Gradients(0, 30));
  Doubles expected;
  for (const auto& [name, tensor] : net.Parameters()) Append(Grad(tensor), expected);
  for (double& value : expected) value /= 3;
  EXPECT_THAT(gradients[0], Pointwise(DoubleNear(1e-4), expected));
  EXPECT_EQ(gradients[1], gradients[0]);
  EXPECT_EQ(gradients[2], gradients[0]);
}

TEST(SyncBatchNormTest, LayersOutliveTheGroupTheyCameFrom) {
  RunRanks(2, [](TestRank& rank) {
    auto group = rank.Join();
    ops::nn::BatchNorm1d norm(1);
    SynchronizeBatchNorm(norm, *group);
    group.reset();
    norm.Forward(Tensor::Full({2, 1}, rank.rank()));
    EXPECT_FLOAT_EQ(norm.running_mean.Item(), 0.05);
  });
}

TEST(SyncBatchNormTest, ARankThatThrowsLeavesNoOtherWaiting) {
  RunRanks(3, [](TestRank& rank) {
    const auto group = rank.Join({.timeout = std::chrono::seconds(20)});
    const auto before = Clock::now();
    auto net = std::make_unique<Net>();
    SynchronizeBatchNorm(*net, *group);
    if (rank.rank() == 1) {
      EXPECT_THROW(net->Forward(Tensor::Zeros({2, kChannels + 1})), std::invalid_argument);
      net.reset();  // as the exception would do on its way out of the training
    } else {
      EXPECT_THROW(net->Forward(Tensor::Zeros({2, kChannels})), CollectiveError);
    }
    EXPECT_LT(Clock::now() - before, std::chrono::seconds(10));
  });
}

TEST(SyncBatchNormTest, ARankThatDoesNotComeIsWaitedForNoLongerThanTheTimeout) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join({.timeout = std::chrono::milliseconds(500)});
    ops::nn::BatchNorm1d norm(1);
    SynchronizeBatchNorm(norm, *group);
    const Tensor x = SetRequiresGrad(Tensor::Full({2, 1}, rank.rank()));
    const Tensor y = norm.Forward(x);
    if (rank.rank() == 0) {
      EXPECT_THROW(Backward(Sum(y)), TimeoutError);
      rank.store()->Set("done", "");
    }
    rank.store()->Wait({"done"});
  });
}

TEST(SyncBatchNormTest, DifferentLayersAreToldApart) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    ops::nn::BatchNorm1d norm(2 + rank.rank());
    SynchronizeBatchNorm(norm, *group);
    EXPECT_THAT(
        [&] {
          norm.Forward(Tensor::Zeros({2, 2 + rank.rank()}));
        },
        testing::Throws<CollectiveError>(testing::Property(
            &CollectiveError::what, testing::AllOf(HasSubstr("5"), HasSubstr("7")))));
  });
}

TEST(SyncBatchNormTest, OneRankNeedsNobody) {
  RunRanks(1, [](TestRank& rank) {
    const auto group = rank.Join();
    ops::nn::BatchNorm1d norm(1);
    SynchronizeBatchNorm(norm, *group);
    norm.Forward(Tensor::FromVector<float>({0, 10}, {2, 1}));
    EXPECT_FLOAT_EQ(norm.running_mean.Item(), 0.5);
  });
}

}  // namespace
}  // namespace ddp
