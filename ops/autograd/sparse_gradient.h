// A gradient of which only some rows are stored: that of a table whose rows were looked up. All
// others are zero.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops {

// ids [n] (int64) and rows [n, width]: row i is a part of the gradient of the table's row ids[i].
// An id may come several times, and n may be 0.
struct SparseGradient {
  Tensor ids;
  Tensor rows;

  bool defined() const { return ids.defined(); }
};

// The same gradient with ids ascending, each once. Rows of one id are added up in the order in
// which they come, and rounded once, whatever the threads. Where ids are so already: the same
// tensors.
SparseGradient Coalesce(const SparseGradient& sparse);

// The same gradient with all rows of the table, [count, width].
Tensor Densify(const SparseGradient& sparse, int64_t count);

// Both parts, one behind the other. Where the first is undefined: the second.
SparseGradient Concatenate(const SparseGradient& first, const SparseGradient& second);

// What an embedding's table gets where ids [...] were looked up and dy [..., width] came back, less
// what belongs to the row `padding_id` (negative: none). The ids are copied; the rows are dy's
// memory where nobody else needs it, else copies.
SparseGradient RowsOf(const Tensor& ids, const Tensor& dy, int64_t padding_id);

}  // namespace ops
