#include "ops/cpu/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <stdexcept>

#include "absl/container/inlined_vector.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/parallel_sum.h"
#include "ops/cpu/reduce_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 65536;              // elements that make a hand-over worth its while
constexpr int64_t kMinElementsPerPiece = 256;  // neighbours that a chunk reads at once: 1 KiB
constexpr int64_t kColumnsPerChunk = 512;      // at most: their float64 sums fill 4 KiB of L1 cache

const ReduceKernels& Kernels(const char* operation, DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(
        fmt::format("{}: expected a floating point dtype, got {}", operation, Name(dtype)));
  }
  const auto& kernels =
      ForIsa(baseline::kReduceKernels, avx2::kReduceKernels, avx512::kReduceKernels);
  return kernels[static_cast<int>(dtype)];
}

double SumOfAll(double (*kernel)(const void*, int64_t), const Tensor& x) {
  const int64_t size = SizeOf(x.dtype());
  return ParallelSum(x.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    return kernel(x.raw_data() + begin * size, end - begin);
  });
}

// The dimensions of x, merged into reduced and kept ones by turns. The first is a reduced one,
// followed by a kept one: they may have the extent 1.
struct ReductionPlan {
  struct Dimension {
    int64_t extent;
    bool is_kept;
  };
  int rank = 0;
  Dimension dims[Shape::kMaxRank + 2];

  void Append(int64_t extent, bool is_kept) {
    if (rank > 0 && dims[rank - 1].is_kept == is_kept) {
      dims[rank - 1].extent *= extent;
    } else {
      dims[rank++] = {extent, is_kept};
    }
  }
};

ReductionPlan PlanReduction(const Shape& x, const Shape& out) {
  ReductionPlan plan;
  plan.Append(1, false);
  for (int i = -x.rank(); i < 0; ++i) {
    if (x.dim(i) != 1) plan.Append(x.dim(i), -i <= out.rank() && out.dim(i) != 1);
  }
  if (plan.rank == 1) plan.Append(1, true);
  return plan;
}

// Adds x, whose dimensions are `dims`, into the kept elements at `sums`. Returns how many x has.
class Reducer {
 public:
  Reducer(const ReduceKernels& kernels, int64_t element_bytes)
      : kernels_(kernels), element_bytes_(element_bytes) {}

  void Add(const std::byte* x, std::span<const ReductionPlan::Dimension> dims, double* sums) const {
    const auto [extent, is_kept] = dims[0];
    if (dims.size() == 1 && !is_kept) {
      sums[0] += kernels_.sum(x, extent);
    } else if (dims.size() == 1) {
      kernels_.add_columns(x, 1, extent, extent, sums);
    } else if (dims.size() == 2 && !is_kept) {
      kernels_.add_columns(x, extent, dims[1].extent, dims[1].extent, sums);
    } else {
      const auto inner = dims.subspan(1);
      const int64_t x_step = NumElements(inner) * element_bytes_;
      const int64_t sums_step = is_kept ? NumKept(inner) : 0;
      for (int64_t i = 0; i < extent; ++i) Add(x + i * x_step, inner, sums + i * sums_step);
    }
  }

  static int64_t NumElements(std::span<const ReductionPlan::Dimension> dims) {
    int64_t n = 1;
    for (const auto& dim : dims) n *= dim.extent;
    return n;
  }

  static int64_t NumKept(std::span<const ReductionPlan::Dimension> dims) {
    int64_t n = 1;
    for (const auto& dim : dims) n *= dim.is_kept ? dim.extent : 1;
    return n;
  }

 private:
  const ReduceKernels& kernels_;
  int64_t element_bytes_;
};

// One thread's share of the outermost kept dimension: its indices [begin, end).
void SumShare(const Tensor& x, const Tensor& out, const ReductionPlan& plan,
              const ReduceKernels& kernels, int64_t begin, int64_t end, bool accumulate,
              double factor) {
  const int64_t size = SizeOf(x.dtype());
  const int64_t rows = plan.dims[0].extent, columns = plan.dims[1].extent;
  const std::span inner(plan.dims + 2, plan.rank - 2);
  const int64_t x_step = Reducer::NumElements(inner), sums_step = Reducer::NumKept(inner);
  absl::InlinedVector<double, kColumnsPerChunk> sums((end - begin) * sums_step);
  if (inner.empty()) {
    kernels.add_columns(x.raw_data() + begin * size, rows, end - begin, columns, sums.data());
  } else {
    const Reducer reducer(kernels, size);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = begin; i < end; ++i) {
        reducer.Add(x.raw_data() + (row * columns + i) * x_step * size, inner,
                    sums.data() + (i - begin) * sums_step);
      }
    }
  }
  for (double& sum : sums) sum *= factor;
  kernels.store(sums.data(), static_cast<int64_t>(sums.size()),
                out.raw_data() + begin * sums_step * size, accumulate);
}

// A tensor as [outer, extent, inner], around one dimension.
struct Around {
  Around(const Shape& shape, int dim) : extent(shape.dim(dim)) {
    for (int i = 0; i < dim; ++i) outer *= shape.dim(i);
    for (int i = dim + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
  }
  int64_t outer = 1, extent, inner = 1;
};

// Calls body(outer index, first inner index, their number) over the threads.
template <class Body>
void ForEachColumns(const Around& around, Body body) {
  constexpr int64_t kMaxColumns = 512;
  const int64_t columns = std::clamp<int64_t>(around.inner, 1, kMaxColumns);
  const int64_t blocks = (around.inner + columns - 1) / columns;
  const int64_t per_chunk = std::max<int64_t>(1, kChunk / (around.extent * columns));
  ParallelFor(around.outer * blocks, per_chunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * columns;
      body(i / blocks, first, std::min(columns, around.inner - first));
    }
  });
}

}  // namespace

void SumTo(const Tensor& x, const Tensor& out, bool accumulate, double factor) {
  const ReduceKernels& kernels = Kernels("Sum", x.dtype());
  if (out.num_elements() == 1) {
    const double sum = factor * SumOfAll(kernels.sum, x);
    return kernels.store(&sum, 1, out.raw_data(), accumulate);
  }
  const ReductionPlan plan = PlanReduction(x.shape(), out.shape());
  const int64_t columns = plan.dims[1].extent;
  const int64_t per_column = columns == 0 ? 1 : x.num_elements() / columns;
  const int64_t neighbours = Reducer::NumElements(std::span(plan.dims + 2, plan.rank - 2));
  // Sums that each column of the outermost kept dimension needs.
  const int64_t sums_per_column =
      std::max<int64_t>(1, columns == 0 ? 1 : out.num_elements() / columns);
  const int64_t columns_per_chunk =
      std::clamp(kChunk / std::max<int64_t>(1, per_column),
                 std::max<int64_t>(1, kMinElementsPerPiece / std::max<int64_t>(1, neighbours)),
                 std::max<int64_t>(1, kColumnsPerChunk / sums_per_column));
  ParallelFor(columns, columns_per_chunk, [&](int64_t begin, int64_t end) {
    SumShare(x, out, plan, kernels, begin, end, accumulate, factor);
  });
}

void Max(const Tensor& x, int dim, const Tensor& values, const Tensor& indices) {
  const auto& kernels = ForIsa(baseline::kMaxKernels, avx2::kMaxKernels, avx512::kMaxKernels);
  const auto kernel = kernels[static_cast<int>(x.dtype())];
  const Around around(x.shape(), dim);
  const int64_t size = SizeOf(x.dtype());
  ForEachColumns(around, [&](int64_t outer, int64_t first, int64_t columns) {
    const int64_t from = outer * around.extent * around.inner + first;
    const int64_t to = outer * around.inner + first;
    kernel(x.raw_data() + from * size, around.extent, around.inner, columns,
           values.raw_data() + to * size, indices.data<int64_t>() + to);
  });
}

void MaxBackward(const Tensor& dy, const Tensor& indices, int dim, const Tensor& dx) {
  const Around around(dx.shape(), dim);
  const int64_t size = SizeOf(dx.dtype());
  const auto add = Kernels("MaxBackward", dx.dtype()).add_one;
  ForEachColumns(around, [&](int64_t outer, int64_t first, int64_t columns) {
    for (int64_t j = first; j < first + columns; ++j) {
      const int64_t from = outer * around.inner + j;
      const int64_t index = indices.data<int64_t>()[from];
      const int64_t to = (outer * around.extent + index) * around.inner + j;
      add(dy.raw_data() + from * size, dx.raw_data() + to * size);
    }
  });
}

double SumOfSquares(const Tensor& x) {
  return SumOfAll(Kernels("SumOfSquares", x.dtype()).sum_of_squares, x);
}

bool AllFinite(const Tensor& x) {
  const auto kernel = Kernels("AllFinite", x.dtype()).all_finite;
  const int64_t size = SizeOf(x.dtype());
  std::atomic<bool> finite = true;
  ParallelFor(x.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    if (!kernel(x.raw_data() + begin * size, end - begin)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

}  // namespace ops::cpu
