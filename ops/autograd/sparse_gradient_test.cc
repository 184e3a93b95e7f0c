// Sparse gradients: as values, and as what leaves keep.
#include "ops/autograd/sparse_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"

namespace ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Ids(const std::vector<int64_t>& ids) {
  return Tensor::FromVector(ids, {static_cast<int64_t>(ids.size())});
}

Tensor Rows(const std::vector<float>& values, int64_t width = 2) {
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size()) / width, width});
}

Tensor Table(int64_t count = 4) { return SetRequiresGrad(Tensor::Zeros({count, 2})); }

std::vector<int64_t> IdsOf(const SparseGradient& sparse) { return sparse.ids.ToVector<int64_t>(); }
std::vector<float> RowsOf(const SparseGradient& sparse) { return sparse.rows.ToVector<float>(); }

void LookUp(const Tensor& table, const std::vector<int64_t>& ids, const std::vector<float>& dy,
            int64_t padding_id = -1) {
  Backward(Embedding(Ids(ids), table, padding_id, /*sparse=*/true), Rows(dy));
}

TEST(SparseGradientTest, CoalesceSortsIdsAndAddsUpTheirRows) {
  const SparseGradient sum =
      Coalesce({Ids({3, 0, 3, 1, 3}), Rows({1, 2, 3, 4, 10, 20, 5, 6, 100, 200})});
  EXPECT_THAT(IdsOf(sum), ElementsAre(0, 1, 3));
  EXPECT_THAT(RowsOf(sum), ElementsAre(3, 4, 5, 6, 111, 222));
}

TEST(SparseGradientTest, CoalesceAddsInOrderOfAppearanceWhateverTheThreads) {
  EXPECT_THAT(RowsOf(Coalesce({Ids({1, 1, 1}), Rows({1, 1e8, -1e8}, 1)})), ElementsAre(0));
  EXPECT_THAT(RowsOf(Coalesce({Ids({1, 1, 1}), Rows({1e8, -1e8, 1}, 1)})), ElementsAre(1));
  Generator generator(1);
  std::vector<int64_t> ids(5000);
  for (int64_t& id : ids) id = static_cast<int64_t>(generator.Below(700));
  const SparseGradient sparse = {Ids(ids), Tensor::Randn({5000, 65}, generator)};
  const SparseGradient alone = Coalesce(sparse);
  cpu::ThreadPool pool(2);
  const cpu::ScopedThreadPool use(&pool);
  const SparseGradient threaded = Coalesce(sparse);
  EXPECT_EQ(IdsOf(threaded), IdsOf(alone));
  EXPECT_EQ(RowsOf(threaded), RowsOf(alone));
  EXPECT_EQ(Densify(sparse, 700).ToVector<float>(), Densify(alone, 700).ToVector<float>());
}

TEST(SparseGradientTest, CoalescedAlreadyIsLeftAlone) {
  for (const auto& ids : {std::vector<int64_t>{}, {2}, {0, 2, 3}}) {
    const SparseGradient sparse = {Ids(ids), Tensor::Zeros({static_cast<int64_t>(ids.size()), 3})};
    EXPECT_TRUE(Coalesce(sparse).ids.IsSameAs(sparse.ids));
    EXPECT_TRUE(Coalesce(sparse).rows.IsSameAs(sparse.rows));
  }
}

TEST(SparseGradientTest, Densify) {
  const Tensor dense = Densify({Ids({2, 0, 2}), Rows({1, 2, 3, 4, 5, 6})}, 3);
  EXPECT_EQ(dense.shape(), (Shape{3, 2}));
  EXPECT_THAT(dense.ToVector<float>(), ElementsAre(3, 4, 0, 0, 6, 8));
}

TEST(SparseLeafTest, KeepsTheRowsThatWereLookedUp) {
  const Tensor table = Table();
  LookUp(table, {2, 0, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_FALSE(Grad(table).defined());
  EXPECT_THAT(IdsOf(SparseGrad(table)), ElementsAre(2, 0, 2));
  EXPECT_THAT(RowsOf(SparseGrad(table)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(IdsOf(CoalesceGrad(table)), ElementsAre(0, 2));
  EXPECT_THAT(RowsOf(SparseGrad(table)), ElementsAre(3, 4, 6, 8));
  EXPECT_THAT(GradElements(table).ToVector<float>(), ElementsAre(3, 4, 6, 8));
  ClearGrad(table);
  EXPECT_FALSE(SparseGrad(table).defined());
  EXPECT_FALSE(CoalesceGrad(table).defined());
  EXPECT_FALSE(GradElements(table).defined());
}

TEST(SparseLeafTest, NoIdsAreAGradientWithoutRows) {
  const Tensor table = Table();
  LookUp(table, {}, {});
  ASSERT_TRUE(SparseGrad(table).defined());
  EXPECT_EQ(SparseGrad(table).rows.shape(), (Shape{0, 2}));
}

TEST(SparseLeafTest, ThePaddingRowGetsNone) {
  const Tensor table = Table();
  LookUp(table, {1, 0, 1, 3}, {1, 2, 3, 4, 5, 6, 7, 8}, /*padding_id=*/1);
  EXPECT_THAT(IdsOf(SparseGrad(table)), ElementsAre(0, 3));
  EXPECT_THAT(RowsOf(SparseGrad(table)), ElementsAre(3, 4, 7, 8));
}

TEST(SparseLeafTest, AddsUpOverUsesAndBackwards) {
  const Tensor table = Table();
  const Tensor y = Embedding(Ids({1}), table, -1, true) + Embedding(Ids({3}), table, -1, true);
  Backward(y, Rows({1, 2}));
  LookUp(table, {3}, {10, 20});
  EXPECT_THAT(IdsOf(CoalesceGrad(table)), ElementsAre(1, 3));
  EXPECT_THAT(RowsOf(SparseGrad(table)), ElementsAre(1, 2, 11, 22));
}

// The gradient that came back may be someone else's too, and ids are the caller's to change.
TEST(SparseLeafTest, SharesNoMemoryWithOthers) {
  const Tensor table = Table(), dy = Rows({1, 2}), ids = Ids({2});
  Backward(Embedding(ids, table, -1, true), dy);
  dy.Fill(7);
  ids.Fill(0);
  EXPECT_THAT(IdsOf(SparseGrad(table)), ElementsAre(2));
  EXPECT_THAT(RowsOf(SparseGrad(table)), ElementsAre(1, 2));
  const Tensor other = SetRequiresGrad(Tensor::Zeros({1, 2}));
  Backward(Embedding(Ids({0}), table, -1, true) + other, Rows({3, 4}));
  Grad(other).Fill(7);
  EXPECT_THAT(RowsOf(SparseGrad(table)), ElementsAre(1, 2, 3, 4));
}

TEST(SparseLeafTest, EqualsTheDenseGradient) {
  Generator generator(1);
  std::vector<int64_t> values(40);
  for (int64_t& value : values) value = static_cast<int64_t>(generator.Below(9));
  const Tensor ids = Tensor::FromVector(values, {5, 8});
  const Tensor dy = Tensor::Randn({5, 8, 3}, generator);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const Tensor dense = SetRequiresGrad(Tensor::Zeros({9, 3}, {dtype}));
    const Tensor sparse = SetRequiresGrad(dense.Clone());
    Backward(Embedding(ids, dense, 4), dy.To(dtype));
    Backward(Embedding(ids, sparse, 4, true), dy.To(dtype));
    EXPECT_EQ(Densify(CoalesceGrad(sparse), 9).ToVector<double>(), Grad(dense).ToVector<double>());
  }
}

// As in a model whose head is its embedding.
TEST(SparseLeafTest, ADensePartMakesItDense) {
  const Tensor table = Table(3);
  const Tensor x = Rows({1, 10});
  LookUp(table, {1}, {5, 6});
  Backward(Sum(Linear(x, table, {})));
  EXPECT_FALSE(SparseGrad(table).defined());
  EXPECT_THAT(Grad(table).ToVector<float>(), ElementsAre(1, 10, 6, 16, 1, 10));
  LookUp(table, {0}, {1, 1});
  EXPECT_THAT(Grad(table).ToVector<float>(), ElementsAre(2, 11, 6, 16, 1, 10));
  ClearGrad(table);
  LookUp(table, {0}, {1, 2});
  EXPECT_THAT(IdsOf(SparseGrad(table)), ElementsAre(0));
}

TEST(SparseLeafTest, InAGivenPlaceItIsDense) {
  const Tensor table = Table(2), place = Tensor::Full({2, 2}, 9);
  LookUp(table, {1}, {1, 2});
  PlaceGrad(table, place);
  EXPECT_FALSE(SparseGrad(table).defined());
  EXPECT_THAT(place.ToVector<float>(), ElementsAre(0, 0, 1, 2));
  ClearGrad(table);
  LookUp(table, {0}, {3, 4});
  EXPECT_THAT(Grad(table).ToVector<float>(), ElementsAre(3, 4, 0, 0));
  EXPECT_EQ(Grad(table).raw_data(), place.raw_data());
  ClearGrad(table);
  PlaceGrad(table, {});
  LookUp(table, {0}, {3, 4});
  EXPECT_TRUE(SparseGrad(table).defined());
}

TEST(SparseLeafTest, HooksRunOnceItIsComplete) {
  const Tensor table = Table();
  std::vector<int64_t> seen;
  AddGradHook(table, [&](const Tensor& leaf) { seen.push_back(SparseGrad(leaf).ids.dim(0)); });
  Backward(Embedding(Ids({1}), table, -1, true) + Embedding(Ids({3}), table, -1, true),
           Rows({1, 2}));
  EXPECT_THAT(seen, ElementsAre(2));
}

TEST(SparseLeafTest, HalfASumIsDropped) {
  const Tensor table = Table(), other = SetRequiresGrad(Tensor::Zeros({1, 2}));
  const Tensor first = Embedding(Ids({1}), table, -1, true);
  const Tensor y = Embedding(Ids({3}), table, -1, true) + first * other;
  AddGradHook(other, [](const Tensor&) { throw std::runtime_error("enough"); });
  EXPECT_THROW(Backward(y, Rows({1, 2})), std::runtime_error);
  EXPECT_FALSE(SparseGrad(table).defined());
  EXPECT_FALSE(Grad(table).defined());
}

TEST(SparseLeafTest, ATableThatWasComputedGetsADenseGradient) {
  const Tensor table = Table(2);
  Backward(Embedding(Ids({1}), table * 3, -1, true), Rows({1, 2}));
  EXPECT_THAT(Grad(table).ToVector<float>(), ElementsAre(0, 0, 3, 6));
}

TEST(SparseLeafTest, SetSparseGradReplacesAnyOther) {
  const Tensor table = Table();
  SetGrad(table, Tensor::Full({4, 2}, 1));
  SetSparseGrad(table, {Ids({3}), Rows({1, 2})});
  EXPECT_FALSE(Grad(table).defined());
  EXPECT_THAT(IdsOf(SparseGrad(table)), ElementsAre(3));
  SetGrad(table, Tensor::Full({4, 2}, 1));
  EXPECT_FALSE(SparseGrad(table).defined());
  EXPECT_EQ(Grad(table).ToVector<float>(), std::vector<float>(8, 1));
}

TEST(SparseLeafTest, RefusesWhatDoesntFit) {
  const auto refused = [](const Tensor& leaf, const SparseGradient& sparse, const char* part) {
    EXPECT_THAT([&] { SetSparseGrad(leaf, sparse); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(part)));
  };
  refused(Table(), {Ids({4}), Rows({1, 2})}, "the id 4 is no row of float32[4, 2]");
  refused(Table(), {Ids({-1}), Rows({1, 2})}, "the id -1");
  refused(Table(), {Ids({1, 2}), Rows({1, 2})}, "ids int64[2] and rows float32[1, 2]");
  refused(Table(), {Rows({1, 2}), Rows({1, 2})}, "ids float32[1, 2]");
  refused(Table(), {}, "float32[4, 2] can't have ids");
  refused(SetRequiresGrad(Tensor::Zeros({4})), {Ids({1}), Rows({1, 2})}, "float32[4]");
  refused(Tensor::Zeros({4, 2}), {Ids({1}), Rows({1, 2})}, "keeps no gradient");
}

TEST(SparseLeafTest, TheMarkIsTheCallers) {
  const Tensor table = Table();
  EXPECT_FALSE(ExpectsSparseGrad(table));
  ExpectSparseGrad(table);
  EXPECT_TRUE(ExpectsSparseGrad(table));
  EXPECT_FALSE(ExpectsSparseGrad(Tensor::Zeros({1})));
  EXPECT_THROW(ExpectSparseGrad(Tensor::Zeros({1})), std::invalid_argument);
}

}  // namespace
}  // namespace ops
