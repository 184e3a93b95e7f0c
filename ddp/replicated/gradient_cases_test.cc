// Ordinary programs that other libraries give wrong gradients without a word: the right values, or
// the error that every rank gets. Ranks are threads, over TCP and over the default backend.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/errors.h"
#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ddp/replicated/testing.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"

namespace ddp {
namespace {

using ops::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using Options = DistributedDataParallelOptions;

// Three parameters; the gradient of each in Use(p, g) is g.
struct Three : ops::nn::Module {
  Three() {
    RegisterParameter("a", a);
    RegisterParameter("b", b);
    RegisterParameter("c", c);
  }
  Tensor a = Tensor::Full({2}, 1), b = Tensor::Full({3}, 1), c = Tensor::Full({1}, 1);
};

Tensor Use(const Tensor& parameter, double gradient) { return Sum(parameter * gradient); }

// "-": none.
std::string Show(const Tensor& parameter) {
  const Tensor gradient = Grad(parameter);
  return gradient.defined() ? fmt::format("{}", gradient.ToVector<float>()[0]) : "-";
}
std::string Show(const Three& model) {
  return fmt::format("{} {} {}", Show(model.a), Show(model.b), Show(model.c));
}

template <class Error>
std::string MessageOf(const Tensor& loss) {
  try {
    Backward(loss);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class GradientCasesTest : public ReplicatedTest<Three> {
 protected:
  // Of values 1, 2, ... of the ranks.
  double Average() const { return (size() + 1) / 2.0; }
};
INSTANTIATE_TEST_SUITE_P(Backends, GradientCasesTest, ReplicatedSettings(),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(GradientCasesTest, WhatOnlySomeRanksUseIsAveragedWithZeros) {
  Run({.find_unused_parameters = true}, [&](int rank, Three& model, DistributedDataParallel&) {
    for (int step = 0; step < 3; ++step) {
      model.ZeroGrad();
      Backward(rank == 0 ? Use(model.a, 4) + Use(model.b, 12) : Use(model.a, 4));
      EXPECT_EQ(Show(model), fmt::format("4 {} -", 12 / size()));
    }
  });
}

// Nor does the optimizer move it, by momentum or decay.
TEST_P(GradientCasesTest, WhatNoRankUsesIsLeftAlone) {
  Run({.find_unused_parameters = true}, [&](int rank, Three& model, DistributedDataParallel&) {
    ops::optim::AdamW optimizer(model.Parameters(), {.learning_rate = 0.1, .weight_decay = 0.1});
    const auto step = [&](const Tensor& loss) {
      optimizer.ZeroGrad();
      Backward(loss);
      optimizer.Step();
    };
    step(Use(model.a, rank + 1) + Use(model.b, rank + 1) + Use(model.c, 1));
    const auto b = model.b.ToVector<float>();
    for (int i = 0; i < 3; ++i) step(Use(model.a, rank + 1) + Use(model.c, 1));
    EXPECT_EQ(model.b.ToVector<float>(), b);
    EXPECT_EQ(Show(model.b), "-");
  });
}

TEST_P(GradientCasesTest, ParametersOfEarlierMicroBatchesCount) {
  Run({.find_unused_parameters = true},
      [&](int rank, Three& model, DistributedDataParallel& replicated) {
        {
          const DistributedDataParallel::NoSync no_sync(replicated);
          Backward(Use(model.a, rank + 1));
        }
        Backward(Use(model.b, rank + 1));
        EXPECT_EQ(Show(model), fmt::format("{0} {0} -", Average()));
      });
}

// In the first step and later ones, in which buckets are others.
TEST_P(GradientCasesTest, AnUnusedParameterIsNamedInItsStep) {
  for (const int64_t bytes : {int64_t{1}, int64_t{1} << 20}) {
    Run({.bucket_bytes = bytes, .first_bucket_bytes = bytes}, [&](int rank, Three& model,
                                                                  DistributedDataParallel&) {
      for (int step = 0; step < 3; ++step) {
        model.ZeroGrad();
        const Tensor some = Use(model.c, 1) + Use(model.a, 1);
        const std::string message =
            MessageOf<std::logic_error>(rank == size() - 1 ? some : some + Use(model.b, 1));
        EXPECT_THAT(message, HasSubstr(fmt::format("rank {}: no gradient for 'b'", size() - 1)));
        model.ZeroGrad();
        Backward(Use(model.c, rank + 1) + Use(model.a, rank + 1) + Use(model.b, rank + 1));
        EXPECT_EQ(Show(model), fmt::format("{0} {0} {0}", Average()));
      }
    });
  }
}

TEST_P(GradientCasesTest, FreezingAndThawingInEveryOrder) {
  Run({}, [&](int rank, Three& model, DistributedDataParallel& replicated) {
    const auto step = [&] {
      model.ZeroGrad();
      Tensor loss = Use(model.c, rank + 1);
      if (RequiresGrad(model.a)) loss = loss + Use(model.a, rank + 1);
      if (RequiresGrad(model.b)) loss = loss + Use(model.b, rank + 1);
      Backward(loss);
      return Show(model);
    };
    const std::string average = fmt::format("{}", Average());
    EXPECT_EQ(step(), average + " " + average + " " + average);
    SetRequiresGrad(model.a, false);
    EXPECT_EQ(step(), "- " + average + " " + average);
    EXPECT_THAT(replicated.DescribeBuckets(), HasSubstr("float32: c, b\n"));
    SetRequiresGrad(model.b, false);
    SetRequiresGrad(model.a, true);
    EXPECT_EQ(step(), average + " - " + average);
    EXPECT_EQ(step(), average + " - " + average);
    SetRequiresGrad(model.b, true);
    EXPECT_EQ(step(), average + " " + average + " " + average);
    EXPECT_EQ(step(), average + " " + average + " " + average);
  });
}

// No Backward that averages ever sees it trained.
TEST_P(GradientCasesTest, WhatIsThawedForAccumulationOnlyIsAveraged) {
  Run({}, [&](int rank, Three& model, DistributedDataParallel& replicated) {
    const double g = rank + 1;
    SetRequiresGrad(model.b, false);
    Backward(Use(model.a, g) + Use(model.c, g));
    model.ZeroGrad();
    SetRequiresGrad(model.b, true);
    {
      const DistributedDataParallel::NoSync no_sync(replicated);
      Backward(Use(model.a, g) + Use(model.b, g) + Use(model.c, g));
    }
    SetRequiresGrad(model.b, false);
    for (int step = 1; step < 3; ++step) {
      Backward(Use(model.a, g) + Use(model.c, g));
      EXPECT_EQ(Show(model), fmt::format("{0} {1} {0}", (step + 1) * Average(), Average()));
    }
  });
}

TEST_P(GradientCasesTest, WhatWasFrozenWhenTheModelWasWrapped) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Three model;
    SetRequiresGrad(model.b, false);
    DistributedDataParallel replicated(model, *group);
    SetRequiresGrad(model.b, true);
    for (int step = 0; step < 2; ++step) {
      model.ZeroGrad();
      const double g = rank.rank() + 1;
      Backward(Use(model.a, g) + Use(model.b, g) + Use(model.c, g));
      EXPECT_EQ(Show(model), fmt::format("{0} {0} {0}", Average()));
    }
  });
}

TEST_P(GradientCasesTest, BucketsFollowTheOrderOfGradients) {
  Run({.bucket_bytes = 1, .first_bucket_bytes = 1},
      [&](int rank, Three& model, DistributedDataParallel& replicated) {
        EXPECT_EQ(replicated.DescribeBuckets(),
                  "bucket 0: 4 bytes of float32: c\nbucket 1: 12 bytes of float32: b\n"
                  "bucket 2: 8 bytes of float32: a\n");
        for (int step = 0; step < 2; ++step) {
          model.ZeroGrad();
          // Backward completes what was used last first; rank 0's order holds.
          const double g = rank + 1;
          const Tensor* order[] = {&model.b, &model.c, &model.a};
          if (rank > 0) std::swap(order[0], order[2]);
          Tensor loss = Tensor::Scalar(0);
          for (const Tensor* parameter : order) loss = loss + Use(*parameter, g);
          Backward(loss);
          EXPECT_EQ(Show(model), fmt::format("{0} {0} {0}", Average()));
          EXPECT_EQ(replicated.DescribeBuckets(),
                    "bucket 0: 8 bytes of float32: a\nbucket 1: 4 bytes of float32: c\n"
                    "bucket 2: 12 bytes of float32: b\n");
        }
      });
}

TEST_P(GradientCasesTest, AStaticGraphMayLeaveParametersOut) {
  Run({.static_graph = true}, [&](int rank, Three& model, DistributedDataParallel&) {
    for (int step = 0; step < 3; ++step) {
      model.ZeroGrad();
      Backward(rank == 0 ? Use(model.a, 4) + Use(model.b, 12) : Use(model.a, 4));
      EXPECT_EQ(Show(model), fmt::format("4 {} -", 12 / size()));
    }
    const std::string message = MessageOf<std::logic_error>(Use(model.a, 1));
    EXPECT_THAT(message, HasSubstr("rank 0: the graph isn't static: Backward reached 'b' 0 times"));
  });
}

// Losses are sums over samples: 1, 2, ... of them on the ranks, each with gradient 1 + rank.
TEST_P(GradientCasesTest, WeightsMakeItTheGradientOfTheWholeBatch) {
  Run({.average = Options::Average::kWeights}, [&](int rank, Three& model,
                                                   DistributedDataParallel& replicated) {
    double sum = 0, samples = 0;
    for (int r = 0; r < size(); ++r) {
      sum += (r + 1) * (r + 1);
      samples += r + 1;
    }
    for (int step = 0; step < 2; ++step) {
      model.ZeroGrad();
      const double n = rank + 1, g = n * (rank + 1);
      replicated.SetWeight(n);
      Backward(Use(model.a, g) + Use(model.b, g) + Use(model.c, g));
      EXPECT_NEAR(Grad(model.a).ToVector<float>()[0], sum / samples, 1e-6);
    }
    EXPECT_THAT(MessageOf<std::logic_error>(Use(model.a, 1) + Use(model.b, 1) + Use(model.c, 1)),
                HasSubstr("rank 0: no weight was set"));
  });
}

TEST_P(GradientCasesTest, WeightsOfRanksWithoutSamples) {
  Run({.average = Options::Average::kWeights},
      [&](int rank, Three& model, DistributedDataParallel& replicated) {
        const double g = rank == 0 ? 6 : 0;
        replicated.SetWeight(rank == 0 ? 2 : 0);
        Backward(Use(model.a, g) + Use(model.b, g) + Use(model.c, g));
        EXPECT_EQ(Show(model), "3 3 3");
      });
}

TEST_P(GradientCasesTest, NumbersThatAreNotFiniteAreNamedAndTheStepMayBeSkipped) {
  Run({.check_finite = true}, [&](int rank, Three& model, DistributedDataParallel&) {
    for (int step = 0; step < 2; ++step) {
      const double bad = rank == 1 ? std::numeric_limits<double>::quiet_NaN() : 1;
      model.ZeroGrad();
      EXPECT_THAT(
          MessageOf<NonFiniteGradientError>(Use(model.a, 1) + Use(model.b, bad) + Use(model.c, 1)),
          HasSubstr("rank 1: the gradient of 'b' isn't finite"));
      model.ZeroGrad();
      Backward(Use(model.a, rank + 1) + Use(model.b, rank + 1) + Use(model.c, rank + 1));
      EXPECT_EQ(Show(model), fmt::format("{0} {0} {0}", Average()));
    }
  });
}

TEST_P(GradientCasesTest, AHookInTheAllReducesPlace) {
  const CommunicationHook to_bf16 = [](ProcessGroup& group, const GradientBucket& bucket) {
    const Tensor small = bucket.gradients.To(ops::DType::kBFloat16);
    return Then(group.AllReduce(BufferOf(small), ReduceOp::kSum),
                [small, all = bucket.gradients] { all.CopyFrom(small); });
  };
  Run({.bucket_bytes = 1, .first_bucket_bytes = 1, .find_unused_parameters = true, .hook = to_bf16},
      [&](int rank, Three& model, DistributedDataParallel&) {
        for (int step = 0; step < 3; ++step) {
          model.ZeroGrad();
          Backward(Use(model.a, size() * (rank + 1)) + Use(model.b, size()));
          EXPECT_EQ(Show(model), fmt::format("{} {} -", size() * Average(), size()));
        }
      });
}

TEST_P(GradientCasesTest, TheOptimizerMayStepEachBucketAsItArrives) {
  std::vector<std::vector<std::string>> stepped(size());
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Three model;
    DistributedDataParallel replicated(
        model, *group,
        {.bucket_bytes = 1,
         .first_bucket_bytes = 1,
         .on_reduced = [&, mine = rank.rank()](std::span<const ops::NamedTensor> parameters) {
           for (const auto& [name, tensor] : parameters) {
             stepped[mine].push_back(fmt::format("{}: {}", name, Show(tensor)));
           }
         }});
    const double g = rank.rank() + 1;
    Backward(Use(model.a, g) + Use(model.b, g) + Use(model.c, g));
  });
  const std::string average = fmt::format("{}", Average());
  for (const auto& names : stepped) {
    EXPECT_THAT(names, ElementsAre("c: " + average, "b: " + average, "a: " + average));
  }
}

TEST_P(GradientCasesTest, AModelThatWasGivenOtherTensorsThroughout) {
  Run({}, [&](int, Three& model, DistributedDataParallel& replicated) {
    model.a = SetRequiresGrad(Tensor::Full({2}, 1));
    model.b = SetRequiresGrad(Tensor::Full({3}, 1));
    model.c = SetRequiresGrad(Tensor::Full({1}, 1));
    try {
      replicated.Forward(model.a);
      ADD_FAILURE() << "no error";
    } catch (const std::logic_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("'a' was given another tensor"));
    } catch (const CollectiveError& error) {  // a peer was quicker
      EXPECT_THAT(error.what(), HasSubstr("'a' was given another tensor"));
    }
  });
}

TEST_P(GradientCasesTest, AnObserverHearsOfBuckets) {
  struct Noting : Observer {
    void OnBackward(const BackwardReport& report) override {
      ++backwards;
      num_buckets = report.buckets.size();
      unused.assign(report.unused.begin(), report.unused.end());
      for (const BucketReport& bucket : report.buckets) {
        EXPECT_LE(report.started, bucket.ready);
        EXPECT_LE(bucket.ready, bucket.started);
        EXPECT_LE(bucket.started, bucket.reduced);
        EXPECT_LE(bucket.reduced, report.finished);
      }
      EXPECT_LE(report.walked, report.finished);
    }
    int backwards = 0;
    size_t num_buckets = 0;
    std::vector<std::string> unused;
  };
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Three model;
    Noting observer;
    DistributedDataParallel replicated(model, *group,
                                       {.bucket_bytes = 1,
                                        .first_bucket_bytes = 1,
                                        .find_unused_parameters = true,
                                        .observer = &observer});
    for (int step = 0; step < 2; ++step) Backward(Use(model.a, 1) + Use(model.c, 1));
    EXPECT_EQ(observer.backwards, 2);
    EXPECT_EQ(observer.num_buckets, 3u);
    EXPECT_THAT(observer.unused, ElementsAre("b"));
  });
}

}  // namespace
}  // namespace ddp
