// What ranks have in common when a wrapper is made: checked, or taken from rank 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Shape;
using ops::Tensor;
using testing::HasSubstr;

// A model that computes nothing.
class Bag : public ops::nn::Module {
 public:
  void Add(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32) {
    RegisterParameter(name, tensors_.emplace_back(Tensor::Zeros(shape, {.dtype = dtype})));
  }
  void AddBuffer(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32) {
    RegisterBuffer(name, tensors_.emplace_back(Tensor::Zeros(shape, {.dtype = dtype})));
  }
  Tensor& last() { return tensors_.back(); }
  Tensor Forward(const Tensor& x) override { return x; }

 private:
  std::deque<Tensor> tensors_;
};

using Build = std::function<void(Bag&)>;

// What three ranks throw when rank 1's model is `other` and the others' is `usual`.
std::string MismatchOf(const Build& usual, const Build& other,
                       const DistributedDataParallelOptions& other_options = {}) {
  std::vector<std::string> messages(3);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join();
    Bag bag;
    (rank.rank() == 1 ? other : usual)(bag);
    const DistributedDataParallelOptions usual_options;
    try {
      DistributedDataParallel replicated(bag, *group,
                                         rank.rank() == 1 ? other_options : usual_options);
    } catch (const MismatchError& error) {
      messages[rank.rank()] = error.what();
    }
    group->Barrier()->Wait();  // the group is as good as before
  });
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(messages[0], messages[2]);
  return messages[0];
}

void Usual(Bag& bag) {
  bag.Add("a", {4, 4});
  bag.Add("b", {4, 4});
}

TEST(AgreementTest, OrderOfParameters) {
  EXPECT_EQ(MismatchOf(Usual,
                       [](Bag& bag) {
                         bag.Add("b", {4, 4});
                         bag.Add("a", {4, 4});
                       }),
            "the ranks' models differ, first in entry 0: ranks 0, 2 have parameter 'a' float32[4, "
            "4], rank 1 has parameter 'b' float32[4, 4]");
}

TEST(AgreementTest, DTypes) {
  EXPECT_THAT(MismatchOf(Usual,
                         [](Bag& bag) {
                           bag.Add("a", {4, 4});
                           bag.Add("b", {4, 4}, DType::kFloat64);
                         }),
              HasSubstr("entry 1: ranks 0, 2 have parameter 'b' float32[4, 4], rank 1 has "
                        "parameter 'b' float64[4, 4]"));
}

TEST(AgreementTest, Shapes) {
  EXPECT_THAT(MismatchOf(Usual,
                         [](Bag& bag) {
                           bag.Add("a", {6, 4});
                           bag.Add("b", {4, 4});
                         }),
              HasSubstr("ranks 0, 2 have parameter 'a' float32[4, 4], rank 1 has parameter 'a' "
                        "float32[6, 4]"));
}

TEST(AgreementTest, FrozenParameters) {
  EXPECT_THAT(MismatchOf(Usual,
                         [](Bag& bag) {
                           Usual(bag);
                           SetRequiresGrad(bag.last(), false);
                         }),
              HasSubstr("rank 1 has parameter 'b' float32[4, 4], frozen"));
}

TEST(AgreementTest, OneMoreParameterOrBuffer) {
  EXPECT_THAT(MismatchOf(Usual,
                         [](Bag& bag) {
                           Usual(bag);
                           bag.Add("c", {1});
                         }),
              HasSubstr("rank 1 has parameter 'c' float32[1]"));
  EXPECT_THAT(MismatchOf(Usual,
                         [](Bag& bag) {
                           Usual(bag);
                           bag.AddBuffer("mean", {2}, DType::kInt64);
                         }),
              HasSubstr("rank 1 has buffer 'mean' int64[2]"));
}

TEST(AgreementTest, BucketSizes) {
  EXPECT_THAT(MismatchOf(Usual, Usual, {.bucket_bytes = 5}),
              HasSubstr("rank 1 has bucket_bytes 5, first_bucket_bytes 1048576"));
}

TEST(AgreementTest, SomethingMustBeTrained) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    Bag bag;
    EXPECT_THROW(DistributedDataParallel(bag, *group), std::invalid_argument);
  });
}

void FillAll(const std::vector<ops::NamedTensor>& tensors, double value) {
  for (const auto& named : tensors) named.tensor.Fill(value);
}

void ExpectAll(const std::vector<ops::NamedTensor>& tensors, double value) {
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(tensor.ToVector<double>(), std::vector<double>(tensor.num_elements(), value)) << name;
  }
}

void AddBuffersOfEveryType(Bag& bag) {
  for (DType dtype : ops::kAllDTypes) bag.AddBuffer(std::string(Name(dtype)), {3}, dtype);
  bag.AddBuffer("empty", {0});
}

TEST(Rank0StateTest, ParametersAndBuffersOfEveryTypeAreRank0s) {
  RunRanks(3, [](TestRank& rank) {
    const auto group = rank.Join();
    Bag bag;
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
      bag.Add(std::string("p").append(Name(dtype)), {2, 2}, dtype);
    }
    SetRequiresGrad(bag.last(), false);
    AddBuffersOfEveryType(bag);
    FillAll(bag.StateDict(), 10 + rank.rank());
    DistributedDataParallel replicated(bag, *group);
    ExpectAll(bag.StateDict(), 10);
  });
}

TEST(Rank0StateTest, BuffersAreBroadcastWithEachAverageInTraining) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    Bag bag;
    bag.Add("a", {1});
    AddBuffersOfEveryType(bag);
    DistributedDataParallel replicated(bag, *group);
    const auto after_backward = [&] {
      FillAll(bag.Buffers(), 5 + rank.rank());
      Backward(Sum(bag.Parameters()[0].tensor * 1.0));
      return bag.Buffers();
    };
    ExpectAll(after_backward(), 5);
    replicated.Eval();
    ExpectAll(after_backward(), 5 + rank.rank());
    replicated.Train();
    {
      DistributedDataParallel::NoSync no_sync(replicated);
      ExpectAll(after_backward(), 5 + rank.rank());
    }
    ExpectAll(after_backward(), 5);
  });
}

TEST(Rank0StateTest, BuffersStayApartWhenAsked) {
  RunRanks(2, [](TestRank& rank) {
    const auto group = rank.Join();
    Bag bag;
    bag.Add("a", {1});
    bag.AddBuffer("mean", {2});
    DistributedDataParallel replicated(
        bag, *group, {.buffers = DistributedDataParallelOptions::Buffers::kLocal});
    FillAll(bag.Buffers(), rank.rank());
    Backward(Sum(bag.Parameters()[0].tensor * 1.0));
    ExpectAll(bag.Buffers(), rank.rank());
  });
}

}  // namespace
}  // namespace ddp
