#include "ops/cpu/softmax.h"

#include <algorithm>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/softmax_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 8192;  // elements

const SoftmaxKernels& Kernels(SoftmaxKind kind, DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kSoftmaxKernels, avx2::kSoftmaxKernels, avx512::kSoftmaxKernels);
  return kernels[static_cast<int>(kind)][static_cast<int>(dtype)];
}

// A tensor seen from one of its dimensions: [outer, length, stride].
struct Along {
  Along(const Shape& shape, int dim) {
    for (int i = 0; i < shape.rank(); ++i) {
      (i < dim ? outer : i == dim ? length : stride) *= shape.dim(i);
    }
  }

  // Calls body(first element, rows) for ranges of rows.
  void ForEachRows(absl::FunctionRef<void(int64_t first, int64_t rows)> body) const {
    ParallelFor(outer, std::max<int64_t>(1, kChunk / length),
                [&](int64_t begin, int64_t end) { body(begin * length, end - begin); });
  }

  // Calls body(first element, columns) for blocks of columns.
  void ForEachColumns(absl::FunctionRef<void(int64_t first, int64_t columns)> body) const {
    const int64_t blocks = (stride + kSoftmaxColumns - 1) / kSoftmaxColumns;
    const int64_t block_elements = length * std::min(stride, kSoftmaxColumns);
    ParallelFor(outer * blocks, std::max<int64_t>(1, kChunk / block_elements),
                [&](int64_t begin, int64_t end) {
                  for (int64_t block = begin; block < end; ++block) {
                    const int64_t column = block % blocks * kSoftmaxColumns;
                    body(block / blocks * length * stride + column,
                         std::min(kSoftmaxColumns, stride - column));
                  }
                });
  }

  int64_t outer = 1, length = 1, stride = 1;
};

}  // namespace

void SoftmaxForward(SoftmaxKind kind, const Tensor& x, int dim, const Tensor& y) {
  if (x.num_elements() == 0) return;
  const SoftmaxKernels& kernels = Kernels(kind, x.dtype());
  const int64_t size = SizeOf(x.dtype());
  const Along along(x.shape(), dim);
  if (along.stride == 1) {
    return along.ForEachRows([&](int64_t first, int64_t rows) {
      kernels.rows(x.raw_data() + first * size, rows, along.length, y.raw_data() + first * size);
    });
  }
  along.ForEachColumns([&](int64_t first, int64_t columns) {
    kernels.columns(x.raw_data() + first * size, along.length, along.stride, columns,
                    y.raw_data() + first * size);
  });
}

void SoftmaxBackward(SoftmaxKind kind, const Tensor& y, const Tensor& dy, int dim, const Tensor& dx,
                     bool accumulate) {
  if (y.num_elements() == 0) return;
  const SoftmaxKernels& kernels = Kernels(kind, y.dtype());
  const int64_t size = SizeOf(y.dtype());
  const Along along(y.shape(), dim);
  if (along.stride == 1) {
    return along.ForEachRows([&](int64_t first, int64_t rows) {
      kernels.rows_backward(y.raw_data() + first * size, dy.raw_data() + first * size, rows,
                            along.length, dx.raw_data() + first * size, accumulate);
    });
  }
  along.ForEachColumns([&](int64_t first, int64_t columns) {
    kernels.columns_backward(y.raw_data() + first * size, dy.raw_data() + first * size,
                             along.length, along.stride, columns, dx.raw_data() + first * size,
                             accumulate);
  });
}

}  // namespace ops::cpu
