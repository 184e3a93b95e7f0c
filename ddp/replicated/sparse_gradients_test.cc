// Models whose embeddings get sparse gradients, on several ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/errors.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ddp/replicated/testing.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using Options = DistributedDataParallelOptions;
using MakeOptimizer =
    std::function<std::unique_ptr<ops::optim::Optimizer>(std::vector<ops::NamedTensor>)>;

Tensor Ids(const std::vector<int64_t>& ids) {
  return Tensor::FromVector(ids, {static_cast<int64_t>(ids.size())});
}

// Two tables and a dense layer; with `sparse` false all gradients are dense.
struct Words : ops::nn::Module {
  explicit Words(bool sparse = true)
      : tokens(kCount, 3, {.sparse = sparse}), places(kCount, 3, {.sparse = sparse}) {
    Register("tokens", tokens);
    Register("fc", fc);
    Register("places", places);
    ops::Generator generator(1);
    for (const auto& [name, parameter] : Parameters()) generator.FillNormal(parameter, 0, 1);
    To(ops::DType::kFloat64);
  }
  Tensor Forward(const Tensor& ids) override {
    return fc.Forward(tokens.Forward(ids) * places.Forward(ids));
  }

  static constexpr int64_t kCount = 30;
  ops::nn::Embedding tokens;
  ops::nn::Linear fc{3, 2};
  ops::nn::Embedding places;
};

// One table; the gradient of each row that is named is `gradient`, once for each time.
struct Table : ops::nn::Module {
  Table() {
    Register("table", table);
    RegisterParameter("bias", bias);
  }
  Tensor Use(const std::vector<int64_t>& ids, double gradient) {
    return Sum(table.Forward(Ids(ids)) * gradient) + Sum(bias * gradient);
  }

  ops::nn::Embedding table{4, 1, {.sparse = true}};
  Tensor bias = Tensor::Zeros({1});
};

// "1:3 2:6", ids and rows; "dense" and "-" where there are none.
std::string Show(const Tensor& table) {
  const ops::SparseGradient sparse = SparseGrad(table);
  if (!sparse.defined()) return Grad(table).defined() ? "dense" : "-";
  std::string text;
  const auto ids = sparse.ids.ToVector<int64_t>();
  const auto rows = sparse.rows.ToVector<float>();
  for (size_t i = 0; i < ids.size(); ++i) {
    text += fmt::format("{}{}:{}", i == 0 ? "" : " ", ids[i], rows[i]);
  }
  return text;
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

class SparseGradientsTest : public ReplicatedTest<Table> {};
INSTANTIATE_TEST_SUITE_P(Backends, SparseGradientsTest, ReplicatedSettings(),
                         [](const auto& info) { return info.param.Name(); });

constexpr int64_t kBatch = 6;

Tensor Batch(int step, int rank) {
  ops::Generator generator(100 * step + rank);
  std::vector<int64_t> ids(kBatch);
  for (int64_t& id : ids) id = static_cast<int64_t>(generator.Below(Words::kCount));
  return Ids(ids);
}

// All parameters, after some steps.
std::vector<double> Train(Words& model, ops::nn::Module& forward, const MakeOptimizer& make,
                          const std::function<Tensor(int step)>& batch) {
  const auto optimizer = make(model.Parameters());
  for (int step = 0; step < 4; ++step) {
    optimizer->ZeroGrad();
    const Tensor y = forward.Forward(batch(step));
    Backward(MseLoss(y, Tensor::Zeros(y.shape(), y.options())));
    optimizer->Step();
  }
  std::vector<double> values;
  for (const auto& [name, parameter] : model.Parameters()) {
    for (const double value : parameter.ToVector<double>()) values.push_back(value);
  }
  return values;
}

TEST_P(SparseGradientsTest, EqualThoseOfOneProcessWithTheJoinedBatch) {
  const auto joined = [&](int step) {
    std::vector<int64_t> ids;
    for (int rank = 0; rank < size(); ++rank) {
      for (const int64_t id : Batch(step, rank).ToVector<int64_t>()) ids.push_back(id);
    }
    return Ids(ids);
  };
  using ops::optim::Adam;
  using ops::optim::Sgd;
  const MakeOptimizer sgd = [](auto p) {
    return std::make_unique<Sgd>(p, ops::optim::SgdOptions{.learning_rate = 0.1});
  };
  const MakeOptimizer momentum = [](auto p) {
    return std::make_unique<Sgd>(p, ops::optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  };
  const MakeOptimizer adam = [](auto p) { return std::make_unique<Adam>(p); };
  for (const MakeOptimizer& make : {sgd, momentum, adam}) {
    Words alone;
    const auto expected = Train(alone, alone, make, joined);
    std::vector<std::vector<double>> ranks(size());
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam());
      Words model;
      DistributedDataParallel replicated(model, *group, {.bucket_bytes = 32});
      ranks[rank.rank()] =
          Train(model, replicated, make, [&](int step) { return Batch(step, rank.rank()); });
      EXPECT_TRUE(SparseGrad(model.tokens.weight).defined());
      EXPECT_THAT(replicated.DescribeBuckets(), HasSubstr("sparse: tokens.weight\n"));
    });
    for (const auto& values : ranks) EXPECT_EQ(values, ranks[0]);
    ASSERT_EQ(ranks[0].size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(ranks[0][i], expected[i], 1e-12) << i;
  }
}

// What dense gradients would have done.
TEST_P(SparseGradientsTest, EqualTheDenseOnes) {
  const MakeOptimizer sgd = [](auto p) {
    return std::make_unique<ops::optim::Sgd>(p, ops::optim::SgdOptions{.learning_rate = 0.1});
  };
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    std::vector<double> results[2];
    for (const bool sparse : {false, true}) {
      Words model(sparse);
      DistributedDataParallel replicated(model, *group);
      results[sparse] =
          Train(model, replicated, sgd, [&](int step) { return Batch(step, rank.rank()); });
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      ASSERT_NEAR(results[true][i], results[false][i], 1e-12) << i;
    }
  });
}

// As in pytorch#80496.
TEST_P(SparseGradientsTest, ARankMayTouchNoRows) {
  Run({}, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 3; ++step) {
      model.ZeroGrad();
      Backward(rank == 0 ? model.Use({2, 1, 2}, 12) : model.Use({}, 12));
      EXPECT_EQ(Show(model.table.weight), fmt::format("1:{} 2:{}", 12 / size(), 24 / size()));
      EXPECT_EQ(Grad(model.bias).Item(), 12);
    }
    model.ZeroGrad();
    Backward(model.Use({}, 12));
    EXPECT_EQ(Show(model.table.weight), "");
  });
}

TEST_P(SparseGradientsTest, UnusedBySomeAndByAll) {
  Run({.find_unused_parameters = true}, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 3; ++step) {
      model.ZeroGrad();
      Backward(rank == 0 ? model.Use({3}, 12) : Sum(model.bias * 12));
      EXPECT_EQ(Show(model.table.weight), fmt::format("3:{}", 12 / size()));
      model.ZeroGrad();
      Backward(Sum(model.bias));
      EXPECT_EQ(Show(model.table.weight), "-");
      EXPECT_EQ(Grad(model.bias).Item(), 1);
    }
  });
}

TEST_P(SparseGradientsTest, WithoutFindUnusedTheyAreNamed) {
  Run({}, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 2; ++step) {
      model.ZeroGrad();
      EXPECT_THAT(MessageOf<std::logic_error>(rank == 1 ? Sum(model.bias) : model.Use({1}, 1)),
                  HasSubstr("rank 1: no gradient for 'table.weight'"));
      model.ZeroGrad();
      Backward(model.Use({1}, 3));
      EXPECT_EQ(Show(model.table.weight), fmt::format("1:{}", 3));
    }
  });
}

TEST_P(SparseGradientsTest, ADenseOneIsToldToAllRanks) {
  Run({}, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 2; ++step) {
      model.ZeroGrad();
      const Tensor loss = model.Use({1}, 1);
      EXPECT_THAT(
          MessageOf<std::logic_error>(rank == 0 ? loss + Sum(model.table.weight) : loss),
          HasSubstr("rank 0: the gradient of 'table.weight' is dense, where a sparse one was"));
      model.ZeroGrad();
      Backward(model.Use({1}, 3));
      EXPECT_EQ(Show(model.table.weight), "1:3");
    }
  });
}

TEST_P(SparseGradientsTest, AreAccumulated) {
  Run({}, [&](int rank, Table& model, DistributedDataParallel& replicated) {
    {
      const DistributedDataParallel::NoSync no_sync(replicated);
      Backward(model.Use({rank}, 12));
    }
    Backward(model.Use({3}, 6));
    std::string expected;
    for (int r = 0; r < std::min(size(), 3); ++r) {
      expected += fmt::format("{}:{} ", r, 12 / size());
    }
    EXPECT_EQ(Show(model.table.weight), expected + (size() == 4 ? "3:9" : "3:6"));
  });
}

TEST_P(SparseGradientsTest, AreAveragedByWeight) {
  Run({.average = Options::Average::kWeights},
      [&](int rank, Table& model, DistributedDataParallel& replicated) {
        replicated.SetWeight(rank == 0 ? 4 : 0);
        Backward(model.Use({1}, 8));
        EXPECT_EQ(Show(model.table.weight), fmt::format("1:{}", 2 * size()));
      });
}

TEST_P(SparseGradientsTest, AHookLeavesThemAlone) {
  const Options options = {.hook = [](ProcessGroup& group, const GradientBucket& bucket) {
    return group.AllReduce(BufferOf(bucket.gradients), ReduceOp::kSum);
  }};
  Run(options, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 2; ++step) {
      model.ZeroGrad();
      Backward(model.Use({rank == 0 ? 1 : 2}, 12));
      EXPECT_EQ(Show(model.table.weight),
                fmt::format("1:{} 2:{}", 12 / size(), 12 * (size() - 1) / size()));
      EXPECT_EQ(Grad(model.bias).Item(), 12);
    }
  });
}

TEST_P(SparseGradientsTest, AloneWithoutAnyDenseGradient) {
  for (const bool with_hook : {false, true}) {
    Options options;
    if (with_hook) {
      options.hook = [](ProcessGroup& group, const GradientBucket& bucket) {
        return group.AllReduce(BufferOf(bucket.gradients), ReduceOp::kSum);
      };
    }
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam());
      ops::nn::Embedding model(4, 1, {.sparse = true});
      DistributedDataParallel replicated(model, *group, options);
      for (int step = 0; step < 3; ++step) {
        replicated.ZeroGrad();
        Backward(Sum(replicated.Forward(Ids({rank.rank() == 0 ? 1 : 2})) * 12));
        EXPECT_EQ(Show(model.weight),
                  fmt::format("1:{} 2:{}", 12 / size(), 12 * (size() - 1) / size()));
      }
    });
  }
}

TEST_P(SparseGradientsTest, InAStaticGraph) {
  Run({.static_graph = true}, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 3; ++step) {
      model.ZeroGrad();
      Backward(model.Use({1}, 2 * rank));
      EXPECT_EQ(Show(model.table.weight), fmt::format("1:{}", size() - 1));
    }
  });
}

TEST_P(SparseGradientsTest, FreezingAndThawing) {
  Run({}, [&](int rank, Table& model, DistributedDataParallel&) {
    for (int step = 0; step < 6; ++step) {
      const bool frozen = step % 4 >= 2;
      model.table.Freeze(frozen);
      model.ZeroGrad();
      Backward(model.Use({1}, 2 * rank));
      EXPECT_EQ(Show(model.table.weight), frozen ? "-" : fmt::format("1:{}", size() - 1)) << step;
      EXPECT_EQ(Grad(model.bias).Item(), size() - 1);
    }
  });
}

TEST_P(SparseGradientsTest, AreCheckedAndReported) {
  std::vector<std::string> reduced(size());
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Table model;
    const Options options = {.check_finite = true, .on_reduced = [&](auto parameters) {
                               for (const auto& [name, tensor] : parameters)
                                 reduced[rank.rank()] += name + " ";
                             }};
    DistributedDataParallel replicated(model, *group, options);
    Backward(model.Use({1}, 1));
    EXPECT_EQ(reduced[rank.rank()], "bias table.weight ");
    model.ZeroGrad();
    const Tensor y = Sum(model.table.Forward(Ids({1})) *
                         (rank.rank() == 1 ? std::numeric_limits<double>::infinity() : 1.0));
    EXPECT_THAT(MessageOf<NonFiniteGradientError>(y + Sum(model.bias)),
                HasSubstr("rank 1: the gradient of 'table.weight' isn't finite"));
  });
}

TEST_P(SparseGradientsTest, RanksWithoutBatchesFollow) {
  std::vector<std::string> seen(size());
  std::vector<std::vector<float>> weights(size());
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    Table model;
    DistributedDataParallel replicated(model, *group);
    ops::optim::Sgd optimizer(model.Parameters(), {.learning_rate = 1});
    const auto update = [&] {
      seen[rank.rank()] += Show(model.table.weight) + "; ";
      optimizer.Step();
      optimizer.ZeroGrad();
    };
    ddp::Join(replicated,
              [&] {
                for (int i = 0; i < (rank.rank() == 0 ? 1 : 2); ++i) {
                  Backward(model.Use({rank.rank() == 0 ? 1 : 2}, 12));
                  update();
                }
              },
              {.after_backward = update});
    weights[rank.rank()] = model.table.weight.ToVector<float>();
  });
  const int others = 12 * (size() - 1) / size();
  for (int rank = 0; rank < size(); ++rank) {
    EXPECT_EQ(seen[rank], fmt::format("1:{} 2:{}; 2:{}; ", 12 / size(), others, others));
    EXPECT_EQ(weights[rank], weights[0]);
  }
}

TEST_P(SparseGradientsTest, RanksMustAgreeOnThem) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    ops::nn::Embedding model(4, 1, {.sparse = rank.rank() == 0});
    EXPECT_THAT([&] { DistributedDataParallel(model, *group); },
                testing::ThrowsMessage<MismatchError>(
                    HasSubstr("rank 0 has parameter 'weight' float32[4, 1], sparse gradient")));
  });
}

}  // namespace
}  // namespace ddp
