// What one rank does, seen through a group whose other rank always has the same values. Several
// ranks are in distributed_data_parallel_test.cc.
#include "ddp/replicated/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::NamedTensor;
using ops::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DoneWork : public Work {
 public:
  void Wait() override {}
  bool IsDone() override { return true; }
};

// Rank 0 of two; notes what it's asked to do.
class NotingGroup : public ProcessGroup {
 public:
  NotingGroup() : ProcessGroup(/*rank=*/0, /*size=*/2) {}
  std::string_view backend() const override { return "noting"; }

  void MonitoredBarrier(Timeout) override {}
  WorkPtr Coalesce(const std::function<void()>&) override { return nullptr; }
  std::unique_ptr<ProcessGroup> Split(int, int) override { return nullptr; }
  std::string WriteFlightRecord(const std::string&) const override { return ""; }
  ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) override {
    return ops::AllocateMemory(num_bytes, device);
  }
  void Abort(const std::string& reason) override { aborts.push_back(reason); }

  std::vector<std::string> events, aborts;
  bool fails = false;

 private:
  WorkPtr Issue(Operation operation, Timeout) override {
    if (fails) throw CollectiveError("the group has failed");
    const Buffer& input = operation.input;
    if (operation.kind == OperationKind::kAllReduce) {
      events.push_back("send " + std::to_string(input.num_bytes()));
    } else if (operation.kind == OperationKind::kAllGather && input.num_elements > 0) {
      std::memcpy(operation.output.data, input.data, input.num_bytes());  // rank 1 gives nothing
    }
    return std::make_shared<DoneWork>();
  }
};

class ReducerTest : public testing::Test {
 protected:
  static Tensor Parameter(std::vector<float> values) {
    return SetRequiresGrad(
        Tensor::FromVector(values, {static_cast<int64_t>(values.size())}).Clone());
  }
  // a is used first, so its gradient comes last.
  Tensor Loss() const { return Sum(a_ * 1.0 * b_ * c_); }

  void Note(const Tensor& parameter, const std::string& name) {
    AddGradHook(parameter, [this, name](const Tensor&) { group_.events.push_back(name); });
  }

  template <class Error>
  static std::string MessageOfBackward(const Tensor& loss) {
    try {
      Backward(loss);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  NotingGroup group_;
  const Tensor a_ = Parameter({1, 2}), b_ = Parameter({3, 4}), c_ = Parameter({5, 6});
  const std::vector<NamedTensor> parameters_ = {{"a", a_}, {"b", b_}, {"c", c_}};
  const BucketLimits one_bucket_, bucket_each_ = {.bytes = 1, .first_bytes = 1};
};

TEST_F(ReducerTest, GradientsLieInBucketsFromTheFirstBackwardOn) {
  Reducer reducer(parameters_, {}, group_, {.limits = one_bucket_});
  Backward(Loss());
  EXPECT_THAT(Grad(a_).ToVector<float>(), ElementsAre(15, 24));
  EXPECT_THAT(Grad(b_).ToVector<float>(), ElementsAre(5, 12));
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(3, 8));
  EXPECT_EQ(Grad(b_).raw_data() - Grad(c_).raw_data(), kGradientAlignment);
  EXPECT_EQ(Grad(a_).raw_data() - Grad(b_).raw_data(), kGradientAlignment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(Grad(c_).raw_data()) % 16, 0u);
}

TEST_F(ReducerTest, ABucketLeavesAsSoonAsItIsFull) {
  Note(a_, "a");
  Note(b_, "b");
  Note(c_, "c");
  Reducer reducer(parameters_, {}, group_, {.limits = bucket_each_});
  Backward(Loss());
  // The last one carries the trouble flag.
  EXPECT_THAT(group_.events, ElementsAre("c", "send 8", "b", "send 8", "a", "send 16"));
}

TEST_F(ReducerTest, NoBucketOvertakesTheOnesAhead) {
  Reducer reducer({{"c", c_}, {"b", b_}, {"a", a_}}, {}, group_, {.limits = bucket_each_});
  Note(a_, "a");
  Note(b_, "b");
  Note(c_, "c");
  Backward(Loss());
  EXPECT_THAT(group_.events, ElementsAre("c", "b", "send 8", "send 8", "a", "send 16"));
}

TEST_F(ReducerTest, OneBucketTravelsOnce) {
  Reducer reducer(parameters_, {}, group_, {.limits = one_bucket_});
  Backward(Loss());
  Backward(Loss());
  EXPECT_THAT(group_.events, ElementsAre("send 144", "send 144"));
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(6, 16));
}

TEST_F(ReducerTest, SendsNothingWhenToldNotTo) {
  Reducer reducer(parameters_, {}, group_, {.limits = one_bucket_});
  reducer.set_synchronizes(false);
  Backward(Loss());
  EXPECT_THAT(group_.events, IsEmpty());
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(3, 8));
}

TEST_F(ReducerTest, KeepsGradientsThatWereThereBefore) {
  Backward(Loss());
  Reducer reducer(parameters_, {}, group_, {.limits = one_bucket_});
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(3, 8));
  Backward(Loss());
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(6, 16));
}

TEST_F(ReducerTest, TakesAGradientThatWasPutElsewhereBackIntoTheBucket) {
  Reducer reducer(parameters_, {}, group_, {.limits = one_bucket_});
  Backward(Loss());
  const std::byte* place = Grad(c_).raw_data();
  SetGrad(c_, Tensor::FromVector<float>({100, 200}, {2}));
  SetGrad(b_, Tensor::FromVector<float>({1000, 2000}, {2}));
  Backward(Sum(a_ * c_));  // b keeps what it has
  EXPECT_EQ(Grad(c_).raw_data(), place);
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(101, 202));
  EXPECT_EQ(Grad(b_).raw_data() - Grad(c_).raw_data(), kGradientAlignment);
  EXPECT_THAT(Grad(b_).ToVector<float>(), ElementsAre(1000, 2000));
}

TEST_F(ReducerTest, NamesParametersThatGotNoGradient) {
  Reducer reducer(parameters_, {}, group_, {.limits = bucket_each_});
  EXPECT_THAT(MessageOfBackward<std::logic_error>(Sum(c_)),
              HasSubstr("rank 0: no gradient for 'a', 'b' (the loss doesn't depend on it"));
  EXPECT_EQ(group_.events.size(), 3u);  // nobody waits in vain
  EXPECT_THAT(group_.aborts, IsEmpty());
  Backward(Loss());  // and all is well again
  EXPECT_EQ(group_.events.size(), 6u);
}

TEST_F(ReducerTest, AGradientOfAnEarlierBackwardCounts) {
  Reducer reducer(parameters_, {}, group_, {.limits = bucket_each_});
  reducer.set_synchronizes(false);
  Backward(Sum(a_ * b_));
  EXPECT_THAT(group_.events, IsEmpty());
  reducer.set_synchronizes(true);
  Backward(Sum(c_));
  EXPECT_THAT(Grad(a_).ToVector<float>(), ElementsAre(3, 4));
  ClearGrad(a_);
  EXPECT_THAT(MessageOfBackward<std::logic_error>(Sum(c_)), HasSubstr("no gradient for 'a' ("));
}

TEST_F(ReducerTest, FrozenParametersHaveNoBucketAndMustStayFrozen) {
  SetRequiresGrad(b_, false);
  Reducer reducer(parameters_, {}, group_, {.limits = bucket_each_});
  Backward(Loss());
  EXPECT_THAT(group_.events, ElementsAre("send 8", "send 16"));
  EXPECT_FALSE(Grad(b_).defined());
  SetRequiresGrad(b_, true);
  EXPECT_THAT(MessageOfBackward<std::logic_error>(Loss()),
              HasSubstr("rank 1: 'b' is frozen here and trained elsewhere"));
}

TEST_F(ReducerTest, AnotherHooksExceptionAbortsTheGroup) {
  const int64_t hook = AddGradHook(a_, [](const Tensor&) { throw std::runtime_error("mine"); });
  Reducer reducer(parameters_, {}, group_, {.limits = bucket_each_});
  EXPECT_EQ(MessageOfBackward<std::runtime_error>(Loss()), "mine");
  EXPECT_THAT(group_.aborts, ElementsAre("an exception ended Backward before the gradients "
                                         "were averaged"));
  RemoveGradHook(a_, hook);
  for (const auto& [name, tensor] : parameters_) ClearGrad(tensor);
  Backward(Loss());
  EXPECT_THAT(Grad(a_).ToVector<float>(), ElementsAre(15, 24));
}

TEST_F(ReducerTest, AGroupThatFailsIsTheErrorOfBackward) {
  Reducer reducer(parameters_, {}, group_, {.limits = bucket_each_});
  group_.fails = true;
  EXPECT_EQ(MessageOfBackward<CollectiveError>(Loss()), "the group has failed");
}

TEST_F(ReducerTest, LeavesGradientsAndNoHooksBehind) {
  {
    NotingGroup group;
    Reducer reducer(parameters_, {}, group, {.limits = one_bucket_});
    Backward(Loss());
  }
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(3, 8));
  Backward(Loss());
  EXPECT_THAT(Grad(c_).ToVector<float>(), ElementsAre(6, 16));
}

TEST_F(ReducerTest, CountsTheTimeThatBackwardWaits) {
  Reducer reducer(parameters_, {}, group_, {.limits = one_bucket_});
  EXPECT_EQ(reducer.exposed_seconds(), 0);
  Backward(Loss());
  EXPECT_GT(reducer.exposed_seconds(), 0);
}

}  // namespace
}  // namespace ddp
