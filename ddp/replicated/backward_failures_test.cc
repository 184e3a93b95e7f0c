// A Backward that goes wrong on one rank: every rank learns what it was, and none waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::Tensor;
using testing::AllOf;
using testing::HasSubstr;

struct Two : ops::nn::Module {
  Two() {
    RegisterParameter("a", a);
    RegisterParameter("b", b);
  }
  Tensor a = Tensor::Full({2}, 1), b = Tensor::Full({2}, 1);
};

// b is reached first.
Tensor LossOfBoth(const Two& model) { return Sum(model.a * 2.0 * model.b); }

template <class Error>
std::string MessageOfBackward(const Tensor& loss) {
  try {
    Backward(loss);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// In one bucket and in two: what travels before the trouble is known differs.
class BackwardFailuresTest : public testing::TestWithParam<int64_t> {
 protected:
  DistributedDataParallelOptions Options() const {
    return {.bucket_bytes = GetParam(), .first_bucket_bytes = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(BucketBytes, BackwardFailuresTest, testing::Values(1, 1 << 20));

TEST_P(BackwardFailuresTest, AParameterThatOneRankDoesNotReach) {
  std::vector<std::string> messages(3);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    DistributedDataParallel replicated(model, *group, Options());
    messages[rank.rank()] =
        MessageOfBackward<std::logic_error>(rank.rank() == 1 ? Sum(model.a) : LossOfBoth(model));
    // The next step is as good as any.
    replicated.ZeroGrad();
    Backward(LossOfBoth(model) * static_cast<double>(rank.rank()));
    EXPECT_EQ(Grad(model.a).ToVector<float>(), (std::vector<float>{2, 2}));
  });
  EXPECT_EQ(messages[0],
            "Backward could not average all gradients: rank 1: no gradient for 'b' (the loss "
            "doesn't depend on it; find_unused_parameters allows that)");
  EXPECT_EQ(messages[1], messages[0]);
  EXPECT_EQ(messages[2], messages[0]);
}

TEST_P(BackwardFailuresTest, ParametersThatNoRankReaches) {
  std::vector<std::string> messages(2);
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    DistributedDataParallel replicated(model, *group, Options());
    messages[rank.rank()] = MessageOfBackward<std::logic_error>(Sum(model.b));
  });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("rank 0: no gradient for 'a'"),
                                 HasSubstr("rank 1: no gradient for 'a'")));
  EXPECT_EQ(messages[1], messages[0]);
}

TEST_P(BackwardFailuresTest, AParameterThatWasReplaced) {
  std::vector<std::string> messages(2);
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    DistributedDataParallel replicated(model, *group, Options());
    if (rank.rank() == 0) model.b = SetRequiresGrad(Tensor::Full({2}, 1));
    messages[rank.rank()] = MessageOfBackward<std::logic_error>(LossOfBoth(model));
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 0: 'b' was given another tensor"));
  EXPECT_EQ(messages[1], messages[0]);
}

// Only some ranks do it; all of them: distributed_data_parallel_test.cc.
TEST_P(BackwardFailuresTest, AParameterThatOneRankThaws) {
  std::vector<std::string> messages(2);
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    SetRequiresGrad(model.b, false);
    DistributedDataParallel replicated(model, *group, Options());
    if (rank.rank() == 0) SetRequiresGrad(model.b, true);
    messages[rank.rank()] = MessageOfBackward<std::logic_error>(LossOfBoth(model));
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 1: 'b' is frozen here and trained elsewhere"));
  EXPECT_EQ(messages[1], messages[0]);
}

TEST_P(BackwardFailuresTest, AParameterThatOneRankFreezes) {
  std::vector<std::string> messages(3);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    DistributedDataParallel replicated(model, *group, Options());
    if (rank.rank() == 2) SetRequiresGrad(model.b, false);
    messages[rank.rank()] = MessageOfBackward<std::logic_error>(LossOfBoth(model));
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 0: 'b' is trained here and frozen elsewhere; rank 1: "));
  for (int rank : {1, 2}) EXPECT_EQ(messages[rank], messages[0]);
}

// What a hook of rank 1 completes again, after its bucket may have left.
TEST_P(BackwardFailuresTest, AGradientThatOneRankCompletesTwice) {
  std::vector<std::string> messages(2);
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    Two model;
    DistributedDataParallel replicated(model, *group, Options());
    Tensor more = Sum(model.b * 1.0);
    if (rank.rank() == 1) {
      AddGradHook(model.b, [&more](const Tensor&) {
        if (more.defined()) Backward(std::exchange(more, Tensor()));
      });
    }
    messages[rank.rank()] = MessageOfBackward<std::logic_error>(LossOfBoth(model));
  });
  EXPECT_THAT(messages[0], HasSubstr("rank 1: the gradient of 'b' was completed 2 times"));
  EXPECT_EQ(messages[1], messages[0]);
}

// Rank 1's backward ends between the first gradient and the last, or with the last. The others are
// told at once rather than at the end of their patience, which is ten minutes.
TEST_P(BackwardFailuresTest, ARankThatThrows) {
  for (Tensor Two::*where : {&Two::b, &Two::a}) {
    std::vector<std::string> messages(3);
    RunRanks(3, [&](TestRank& rank) {
      const auto group = rank.Join();
      Two model;
      DistributedDataParallel replicated(model, *group, Options());
      group->Barrier()->Wait();
      int64_t hook = -1;
      if (rank.rank() == 1) {
        hook = AddGradHook(model.*where,
                           [](const Tensor&) { throw std::runtime_error("out of patience"); });
      }
      rank.Note("in Backward");
      messages[rank.rank()] = MessageOfBackward<std::runtime_error>(LossOfBoth(model));
      if (rank.rank() == 1) RemoveGradHook(model.*where, hook);
      rank.Note("in the next Backward");
      EXPECT_THAT(MessageOfBackward<CollectiveError>(LossOfBoth(model)),
                  HasSubstr("an exception ended Backward"));
    });
    EXPECT_EQ(messages[1], "out of patience");
    for (int rank : {0, 2}) {
      EXPECT_THAT(messages[rank], HasSubstr("lost rank 1: an exception ended Backward"));
    }
  }
}

}  // namespace
}  // namespace ddp
