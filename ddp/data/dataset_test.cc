#include "ddp/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace ddp {
namespace {

using ops::DType;
using ops::Shape;
using ops::Tensor;
using testing::ElementsAre;

template <class Error, class F>
std::string MessageOf(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The dataset of the header's example.
class Squares : public Dataset {
 public:
  int64_t size() const override { return 1000; }
  Example Get(int64_t i) const override {
    return {Tensor::Scalar(i / 1000.0).View({1}), Tensor::Scalar(i * i / 1e6).View({1})};
  }
};

TEST(DatasetTest, AUsersOwnNeedsTwoFunctions) {
  const Squares squares;
  const Batch batch = squares.GetBatch(std::vector<int64_t>{500, 100});
  EXPECT_EQ(batch.size(), 2);
  EXPECT_EQ(batch.inputs.shape(), (Shape{2, 1}));
  EXPECT_THAT(batch.inputs.ToVector<float>(), ElementsAre(0.5f, 0.1f));
  EXPECT_THAT(batch.targets.ToVector<float>(), ElementsAre(0.25f, 0.01f));
}

TEST(StackTest, ScalarsBecomeOneDimension) {
  const std::vector<Example> examples = {
      {Tensor::FromVector<float>({1, 2}, {2}), Tensor::FromVector<int64_t>({7}, {})},
      {Tensor::FromVector<float>({3, 4}, {2}), Tensor::FromVector<int64_t>({8}, {})}};
  const Batch batch = Stack(examples);
  EXPECT_EQ(batch.inputs.Describe(), "float32[2, 2]");
  EXPECT_EQ(batch.targets.Describe(), "int64[2]");
  EXPECT_THAT(batch.inputs.ToVector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.targets.ToVector<int64_t>(), ElementsAre(7, 8));
}

TEST(StackTest, SaysWhichExampleDiffers) {
  const Tensor target = Tensor::Scalar(0);
  const std::vector<Example> shapes = {{Tensor::Zeros({2}), target}, {Tensor::Zeros({3}), target}};
  EXPECT_THAT(MessageOf<std::invalid_argument>([&] { Stack(shapes); }),
              testing::StartsWith("examples of one batch differ: the input of the first is "
                                  "float32[2], that of number 1 is float32[3]"));
  const std::vector<Example> dtypes = {{target, Tensor::Zeros({2})},
                                       {target, Tensor::Zeros({2}, {.dtype = DType::kInt64})}};
  EXPECT_THAT(MessageOf<std::invalid_argument>([&] { Stack(dtypes); }),
              testing::StartsWith("examples of one batch differ: the target of the first is "
                                  "float32[2], that of number 1 is int64[2]"));
  EXPECT_EQ(MessageOf<std::invalid_argument>([] { Stack({}); }), "Stack: no examples");
}

TEST(TensorDatasetTest, GathersRows) {
  const TensorDataset dataset(Tensor::FromVector<float>({0, 1, 2, 3, 4, 5}, {3, 2}),
                              Tensor::FromVector<int64_t>({10, 11, 12}, {3}));
  EXPECT_EQ(dataset.size(), 3);
  const Batch batch = dataset.GetBatch(std::vector<int64_t>{2, 0, 2});
  EXPECT_EQ(batch.inputs.shape(), (Shape{3, 2}));
  EXPECT_THAT(batch.inputs.ToVector<float>(), ElementsAre(4, 5, 0, 1, 4, 5));
  EXPECT_THAT(batch.targets.ToVector<int64_t>(), ElementsAre(12, 10, 12));

  const Example example = dataset.Get(1);
  EXPECT_EQ(example.input.shape(), (Shape{2}));
  EXPECT_EQ(example.target.shape(), Shape{});
  EXPECT_THAT(example.input.ToVector<float>(), ElementsAre(2, 3));
  EXPECT_EQ(example.target.Item(), 11);
}

TEST(TensorDatasetTest, SaysWhatIsWrong) {
  EXPECT_EQ(MessageOf<std::invalid_argument>([] {
              TensorDataset(Tensor::Zeros({3, 2}), Tensor::Zeros({4}));
            }),
            "TensorDataset: inputs float32[3, 2] and targets float32[4] must have the same number "
            "of rows");
  const TensorDataset dataset(Tensor::Zeros({3, 2}), Tensor::Zeros({3}));
  EXPECT_EQ(MessageOf<std::out_of_range>([&] { dataset.Get(3); }), "example 3 of a dataset of 3");
  EXPECT_EQ(MessageOf<std::out_of_range>([&] {
              dataset.GetBatch(std::vector<int64_t>{0, -1});
            }),
            "example -1 of a dataset of 3");
}

}  // namespace
}  // namespace ddp
