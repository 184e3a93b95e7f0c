#include "ops/autograd/sparse_gradient.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "ops/autograd/kernels.h"

namespace ops {
namespace {

Tensor Ids(const std::vector<int64_t>& ids) {
  return Tensor::FromVector(ids, {static_cast<int64_t>(ids.size())});
}

Tensor Concatenate(const Tensor& first, const Tensor& second, const Shape& shape) {
  const Tensor both = Tensor::Empty(shape, first.options());
  both.Slice(0, first.dim(0)).CopyFrom(first);
  both.Slice(first.dim(0), shape.dim(0)).CopyFrom(second);
  return both;
}

}  // namespace

SparseGradient Coalesce(const SparseGradient& sparse) {
  const auto ids = sparse.ids.elements<int64_t>();
  if (std::ranges::is_sorted(ids, std::less_equal<>())) return sparse;
  std::vector<int64_t> known(ids.begin(), ids.end());
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const Tensor places = Tensor::Empty(sparse.ids.shape(), sparse.ids.options());
  std::ranges::transform(ids, places.data<int64_t>(), [&known](int64_t id) {
    return std::ranges::lower_bound(known, id) - known.begin();
  });
  const Tensor rows = Tensor::Empty({static_cast<int64_t>(known.size()), sparse.rows.dim(1)},
                                    sparse.rows.options());
  kernels::GatherRowsBackward(places, /*padding_id=*/-1, sparse.rows, rows, /*accumulate=*/false);
  return {Ids(known), rows};
}

Tensor Densify(const SparseGradient& sparse, int64_t count) {
  const Tensor dense = Tensor::Empty({count, sparse.rows.dim(1)}, sparse.rows.options());
  kernels::GatherRowsBackward(sparse.ids, /*padding_id=*/-1, sparse.rows, dense,
                              /*accumulate=*/false);
  return dense;
}

SparseGradient Concatenate(const SparseGradient& first, const SparseGradient& second) {
  if (!first.defined()) return second;
  const int64_t n = first.ids.dim(0) + second.ids.dim(0);
  return {Concatenate(first.ids, second.ids, {n}),
          Concatenate(first.rows, second.rows, {n, first.rows.dim(1)})};
}

SparseGradient RowsOf(const Tensor& ids, const Tensor& dy, int64_t padding_id) {
  const bool is_ours = dy.IsSoleOwner();
  const int64_t n = ids.num_elements(), width = dy.dim(dy.shape().rank() - 1);
  const Tensor rows = dy.View({n, width});
  const auto all = ids.elements<int64_t>();
  if (padding_id < 0 || std::ranges::find(all, padding_id) == all.end()) {
    return {ids.View({n}).Clone(), is_ours ? rows : rows.Clone()};
  }
  std::vector<int64_t> kept, places;
  for (int64_t i = 0; i < n; ++i) {
    if (all[i] == padding_id) continue;
    kept.push_back(all[i]);
    places.push_back(i);
  }
  const Tensor kept_rows = Tensor::Empty({static_cast<int64_t>(kept.size()), width}, dy.options());
  kernels::GatherRows(Ids(places), rows, kept_rows);
  return {Ids(kept), kept_rows};
}

}  // namespace ops
