#include "ops/cpu/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "ops/cpu/embedding_kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunkBytes = 65536;  // worth a hand-over to another thread

const EmbeddingKernels& Kernels(DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(
        fmt::format("Embedding: expected a floating point dtype, got {}", Name(dtype)));
  }
  const auto& kernels =
      ForIsa(baseline::kEmbeddingKernels, avx2::kEmbeddingKernels, avx512::kEmbeddingKernels);
  return kernels[static_cast<int>(dtype)];
}

int64_t RowsPerChunk(int64_t row_bytes) {
  return std::max<int64_t>(1, kChunkBytes / std::max<int64_t>(1, row_bytes));
}

void CheckIds(const Tensor& ids, int64_t count) {
  const auto values = ids.elements<int64_t>();
  const auto wrong = std::ranges::find_if(values, [=](int64_t v) { return v < 0 || v >= count; });
  if (wrong == values.end()) return;
  throw std::invalid_argument(fmt::format("Embedding: id {} is {}, expected one in [0, {})",
                                          wrong - values.begin(), *wrong, count));
}

// For each row of the table the positions of its ids, ascending: `first` [count] and `next` [n].
struct Uses {
  Uses(const Tensor& ids, int64_t count)
      : first(Tensor::Full({count}, -1, {DType::kInt64})),
        next(Tensor::Empty(ids.shape(), {DType::kInt64})) {
    const int64_t* const id = ids.data<int64_t>();
    int64_t *const pfirst = first.data<int64_t>(), *const pnext = next.data<int64_t>();
    for (int64_t i = ids.num_elements() - 1; i >= 0; --i) {
      pnext[i] = pfirst[id[i]];
      pfirst[id[i]] = i;
    }
  }

  Tensor first, next;
};

}  // namespace

void GatherRows(const Tensor& ids, const Tensor& table, const Tensor& out) {
  CheckIds(ids, table.dim(0));
  const int64_t row_bytes = table.dim(1) * SizeOf(table.dtype());
  const int64_t* const id = ids.data<int64_t>();
  ParallelFor(ids.num_elements(), RowsPerChunk(row_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out.raw_data() + i * row_bytes, table.raw_data() + id[i] * row_bytes, row_bytes);
    }
  });
}

// Each row of the table is one thread's, who adds up all that goes there.
void GatherRowsBackward(const Tensor& ids, int64_t padding_id, const Tensor& dy,
                        const Tensor& dtable, bool accumulate) {
  const auto kernel = Kernels(dtable.dtype()).sum_rows;
  const int64_t count = dtable.dim(0), width = dtable.dim(1);
  const int64_t row_bytes = width * SizeOf(dtable.dtype());
  const Uses uses(ids, count);
  const int64_t* const first = uses.first.data<int64_t>();
  const int64_t* const next = uses.next.data<int64_t>();
  ParallelFor(count, RowsPerChunk(row_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      std::byte* const row = dtable.raw_data() + k * row_bytes;
      if (first[k] >= 0 && k != padding_id) {
        kernel(dy.raw_data(), width, {next, first[k]}, row, accumulate);
      } else if (!accumulate) {
        std::memset(row, 0, row_bytes);
      }
    }
  });
}

}  // namespace ops::cpu
