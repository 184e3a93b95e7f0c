#include "ops/autograd/rearrange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/gradient_check.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// 0, 1, 2, ...
Tensor Counting(const Shape& shape) {
  std::vector<float> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::FromVector(values, shape);
}

template <class F>
auto Refused(F call, auto message) {
  EXPECT_THAT(call, ThrowsMessage<std::invalid_argument>(message));
}

// Checks function(x), and function(y) + y for a computed y, where it adds a second part.
void ExpectGradientsMatch(const std::function<Tensor(const Tensor&)>& function,
                          const Shape& shape) {
  Generator generator(3);
  SCOPED_TRACE(shape.ToString());
  const auto call = [&](const std::vector<Tensor>& in) { return function(in[0]); };
  EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}));
  EXPECT_TRUE(GradientsMatch(call, {RandomLeaf(shape, generator)}, {.accumulate = true}));
  EXPECT_TRUE(GradientsMatch(
      [&](const std::vector<Tensor>& in) {
        const Tensor y = in[0] * 2;
        const Tensor z = function(y);
        return Sum(z * z) + Sum(y * y);
      },
      {RandomLeaf(shape, generator)}));
}

TEST(ReshapeTest, SharesMemory) {
  const Tensor x = Counting({2, 3});
  const Tensor y = Reshape(x, {3, 2});
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(y.raw_data(), x.raw_data());
  ExpectGradientsMatch([](const Tensor& x) { return Reshape(x, {6}); }, {2, 3});
  Refused([&] { Reshape(x, {4}); }, HasSubstr("[4]"));
}

TEST(FlattenTest, MergesTheLastDimensions) {
  const Tensor x = Counting({2, 3, 4, 5});
  EXPECT_EQ(Flatten(x).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(x, 0).shape(), (Shape{120}));
  EXPECT_EQ(Flatten(x, -2).shape(), (Shape{2, 3, 20}));
  EXPECT_EQ(Flatten(Tensor::Zeros({0, 3, 4})).shape(), (Shape{0, 12}));
  EXPECT_EQ(Flatten(x).raw_data(), x.raw_data());
  ExpectGradientsMatch([](const Tensor& x) { return Flatten(x); }, {2, 3, 2});
  Refused([] { Flatten(Counting({3})); }, AllOf(HasSubstr("Flatten"), HasSubstr("dimension 1")));
}

TEST(TransposeTest, ExchangesTwoDimensions) {
  const Tensor x = Counting({2, 3});
  EXPECT_EQ(Transpose(x, 0, 1).shape(), (Shape{3, 2}));
  EXPECT_THAT(Transpose(x, 0, -1).ToVector<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(Transpose(Tensor::Zeros({2, 3, 4}), 0, 2).shape(), (Shape{4, 3, 2}));
  ExpectGradientsMatch([](const Tensor& x) { return Transpose(x, 1, 2); }, {2, 3, 5});
  ExpectGradientsMatch([](const Tensor& x) { return Transpose(x, 0, 2); }, {2, 3, 5});
  ExpectGradientsMatch([](const Tensor& x) { return Transpose(x, 0, 1); }, {0, 5});
  Refused([&] { Transpose(x, 0, 2); }, AllOf(HasSubstr("[2, 3]"), HasSubstr("dimension 2")));
}

TEST(PermuteTest, OrdersDimensions) {
  const Tensor x = Counting({2, 3, 2});
  const Tensor y = Permute(x, {2, 0, -2});
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  EXPECT_THAT(y.ToVector<float>(), ElementsAre(0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11));
  ExpectGradientsMatch([](const Tensor& x) { return Permute(x, {2, 0, 1}); }, {2, 3, 4});
  ExpectGradientsMatch([](const Tensor& x) { return Permute(x, {0, 2, 1, 3}); }, {2, 3, 1, 4});
  ExpectGradientsMatch([](const Tensor& x) { return Permute(x, {}); }, {});
  Refused([&] { Permute(x, {0, 1}); }, AllOf(HasSubstr("[0, 1]"), HasSubstr("[2, 3, 2]")));
  Refused([&] { Permute(x, {0, 1, -2}); }, HasSubstr("[0, 1, -2]"));
  Refused([&] { Permute(x, {0, 1, 3}); }, HasSubstr("dimension 3"));
}

TEST(ConcatenateTest, PutsOneAfterTheOther) {
  const Tensor a = Counting({2, 1}), b = Counting({2, 2});
  EXPECT_THAT(Concatenate({a, b}, 1).ToVector<float>(), ElementsAre(0, 0, 1, 1, 2, 3));
  EXPECT_EQ(Concatenate({a, b}, -1).shape(), (Shape{2, 3}));
  EXPECT_THAT(Concatenate({b, b}).ToVector<float>(), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(Concatenate({a, Tensor::Zeros({2, 0})}, 1).shape(), (Shape{2, 1}));
  const Tensor integers = Tensor::FromVector<int64_t>({4, 5}, {2});
  EXPECT_THAT(Concatenate({integers, integers}).ToVector<int64_t>(), ElementsAre(4, 5, 4, 5));
}

TEST(ConcatenateTest, GradientsMatchDifferences) {
  Generator generator(5);
  for (const int dim : {0, 1, 2}) {
    std::vector<Tensor> inputs;
    for (const int64_t extent : {2, 1, 0, 3}) {
      Shape shape = dim == 0   ? Shape{extent, 2, 3}
                    : dim == 1 ? Shape{2, extent, 3}
                               : Shape{2, 3, extent};
      inputs.push_back(RandomLeaf(shape, generator));
    }
    const auto concatenate = [dim](const std::vector<Tensor>& in) { return Concatenate(in, dim); };
    EXPECT_TRUE(GradientsMatch(concatenate, inputs));
    EXPECT_TRUE(GradientsMatch(concatenate, inputs, {.accumulate = true}));
    inputs[1] = inputs[1].Detach();
    EXPECT_TRUE(GradientsMatch(concatenate, inputs));
    EXPECT_TRUE(GradientsMatch(
        [dim](const std::vector<Tensor>& in) {
          const Tensor y = in[0] * 2;
          const Tensor z = Concatenate({y, y, in[0]}, dim);
          return z * z;
        },
        {inputs[0]}));
  }
}

// More inputs than fit where lists are short.
TEST(ConcatenateTest, OfMany) {
  std::vector<Tensor> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(SetRequiresGrad(Tensor::Full({1}, i)));
  const Tensor all = Concatenate(rows);
  EXPECT_EQ(all.shape(), Shape{20});
  Backward(Sum(all * Counting({20})));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Grad(rows[i]).Item(), i);
}

TEST(ConcatenateTest, RefusesWhatDoesntFit) {
  const Tensor a = Counting({2, 3});
  Refused([] { Concatenate({}); }, HasSubstr("no tensors"));
  Refused(
      [&] {
        Concatenate({a, Counting({3, 2})});
      },
      AllOf(HasSubstr("[2, 3]"), HasSubstr("[3, 2]")));
  Refused([&] { Concatenate({a, Counting({6})}); }, HasSubstr("[6]"));
  Refused([&] { Concatenate({a, Tensor()}); }, HasSubstr("undefined"));
  Refused([&] { Concatenate({a, a.To(DType::kFloat64)}); }, HasSubstr("float64"));
  Refused([&] { Concatenate({a, a}, 2); }, HasSubstr("dimension 2"));
}

TEST(SliceTest, TakesIndicesOfADimension) {
  const Tensor x = Counting({2, 3});
  EXPECT_THAT(Slice(x, 1, 1, 3).ToVector<float>(), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(Slice(x, -2, 1, 2).ToVector<float>(), ElementsAre(3, 4, 5));
  EXPECT_EQ(Slice(x, 1, 2, 2).shape(), (Shape{2, 0}));
  for (int dim = 0; dim < 3; ++dim) {
    ExpectGradientsMatch([dim](const Tensor& x) { return Slice(x, dim, 1, 3); }, {3, 4, 5});
    ExpectGradientsMatch([dim](const Tensor& x) { return Slice(x, dim, 0, 0); }, {3, 4, 5});
  }
  Refused([&] { Slice(x, 1, 1, 4); }, AllOf(HasSubstr("[2, 3]"), HasSubstr("[1, 4)")));
  Refused([&] { Slice(x, 1, -1, 2); }, HasSubstr("[-1, 2)"));
  Refused([&] { Slice(x, 1, 2, 1); }, HasSubstr("[2, 1)"));
  Refused([&] { Slice(x, 2, 0, 1); }, HasSubstr("dimension 2"));
}

TEST(SplitTest, IntoPiecesOfEqualExtent) {
  const auto pieces = Split(Counting({5, 2}), 2);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_THAT(pieces[1].ToVector<float>(), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(pieces[2].shape(), (Shape{1, 2}));
  EXPECT_EQ(Split(Counting({2, 4}), 2, 1).size(), 2u);
  ASSERT_EQ(Split(Tensor::Zeros({0, 2}), 2).size(), 1u);
  EXPECT_EQ(Split(Tensor::Zeros({0, 2}), 2)[0].shape(), (Shape{0, 2}));
}

TEST(SplitTest, IntoPiecesOfGivenExtents) {
  const std::vector<int64_t> extents = {1, 0, 2};
  const auto pieces = Split(Counting({2, 3}), extents, -1);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_THAT(pieces[0].ToVector<float>(), ElementsAre(0, 3));
  EXPECT_THAT(pieces[1].ToVector<float>(), IsEmpty());
  EXPECT_THAT(pieces[2].ToVector<float>(), ElementsAre(1, 2, 4, 5));
}

TEST(SplitTest, GradientsMatchDifferences) {
  for (const int dim : {0, 1, 2}) {
    ExpectGradientsMatch(
        [dim](const Tensor& x) {
          auto pieces = Split(x, 2, dim);
          std::ranges::reverse(pieces);
          return Concatenate(pieces, dim);
        },
        {5, 4, 3});
    // Not every piece is used.
    ExpectGradientsMatch([dim](const Tensor& x) { return Split(x, 2, dim)[1]; }, {4, 4, 4});
  }
}

TEST(SplitTest, RefusesPiecesThatDontFit) {
  const Tensor x = Counting({5});
  const std::vector<int64_t> short_of_it = {2, 2}, negative = {6, -1};
  Refused([&] { Split(x, short_of_it); }, AllOf(HasSubstr("[2, 2]"), HasSubstr("[5]")));
  Refused([&] { Split(x, negative); }, HasSubstr("[6, -1]"));
  Refused([&] { Split(x, int64_t{0}); }, HasSubstr("pieces of 0"));
  Refused([&] { Split(x, 2, 1); }, HasSubstr("dimension 1"));
}

TEST(PadTest, PutsAValueAround) {
  const Tensor x = Counting({2, 2});
  EXPECT_THAT(Pad(x, {{0, 1}, {1, 0}}, 9).ToVector<float>(),
              ElementsAre(9, 0, 1, 9, 2, 3, 9, 9, 9));
  EXPECT_THAT(Pad(x, {{0, 0}, {-1, 2}}, -1).ToVector<float>(), ElementsAre(1, -1, -1, 3, -1, -1));
  EXPECT_THAT(Pad(x, {{0, -1}, {0, 0}}).ToVector<float>(), ElementsAre(0, 1));
  EXPECT_THAT(Pad(Tensor::Zeros({0}), {{1, 1}}, 2).ToVector<float>(), ElementsAre(2, 2));
  EXPECT_THAT(Pad(x, {{0, 0}, {-2, 1}}, 5).ToVector<float>(), ElementsAre(5, 5));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Pad(Tensor::Zeros({0}, {.dtype = DType::kBFloat16}), {{1, 0}}, -infinity).Item(),
            -infinity);
}

TEST(PadTest, GradientsMatchDifferences) {
  for (const std::vector<Padding>& padding : {std::vector<Padding>{{0, 0}, {0, 0}},
                                              {{1, 2}, {0, 3}},
                                              {{-1, 2}, {1, -1}},
                                              {{-3, 1}, {0, 0}},
                                              {{0, 0}, {0, -2}}}) {
    ExpectGradientsMatch([&](const Tensor& x) { return Pad(x, padding, 3); }, {3, 4});
  }
}

TEST(PadTest, RefusesPaddingThatDoesntFit) {
  const Tensor x = Counting({2, 2});
  Refused([&] { Pad(x, {{1, 1}}); }, AllOf(HasSubstr("1 paddings"), HasSubstr("[2, 2]")));
  Refused([&] { Pad(x, {{0, 0}, {-2, -1}}); }, AllOf(HasSubstr("[-2, -1]"), HasSubstr("[2, 2]")));
  Refused([&] { Pad(x, {{0, 0}, {5, -3}}); }, HasSubstr("[5, -3]"));
}

}  // namespace
}  // namespace ops
