#include "ops/cpu/rearrange.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/cpu/isa.h"
#include "ops/cpu/rearrange_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 32768;  // elements

const RearrangeKernels& Kernels() {
  return ForIsa(baseline::kRearrangeKernels, avx2::kRearrangeKernels, avx512::kRearrangeKernels);
}

struct Strides {
  explicit Strides(const Shape& shape) {
    int64_t stride = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      of[i] = stride;
      stride *= shape.dim(i);
    }
  }
  int64_t of[Shape::kMaxRank];
};

int64_t OffsetOf(const BoxBegin& begin, const Shape& shape) {
  const Strides strides(shape);
  int64_t offset = 0;
  for (int i = 0; i < shape.rank(); ++i) offset += begin[i] * strides.of[i];
  return offset;
}

struct Dimension {
  int64_t extent;
  int64_t from, to;  // strides in elements
};

// The dimensions of a copy, outermost first, merged where both sides go through them alike.
struct CopyPlan {
  int rank = 0;
  Dimension dims[Shape::kMaxRank];

  void Append(const Dimension& next) {
    if (next.extent == 1) return;
    if (rank > 0 && GoesOn(dims[rank - 1], next)) {
      dims[rank - 1] = {dims[rank - 1].extent * next.extent, next.from, next.to};
    } else {
      dims[rank++] = next;
    }
  }

  static bool GoesOn(const Dimension& outer, const Dimension& inner) {
    return outer.from == inner.from * inner.extent && outer.to == inner.to * inner.extent;
  }

  // Takes dimension i out: the others say where to do what is done along it.
  Dimension Take(int i) {
    const Dimension taken = dims[i];
    std::copy(dims + i + 1, dims + rank, dims + i);
    --rank;
    return taken;
  }

  int64_t num_rows() const {
    int64_t rows = 1;
    for (int i = 0; i < rank; ++i) rows *= dims[i].extent;
    return rows;
  }
};

// Goes through the indices of a plan's dimensions, the innermost fastest.
class Walk {
 public:
  Walk(const CopyPlan& plan, int64_t row) : plan_(plan) {
    for (int i = plan.rank - 1; i >= 0; --i) {
      const auto& [extent, from, to] = plan.dims[i];
      index_[i] = row % extent;
      row /= extent;
      from_ += index_[i] * from;
      to_ += index_[i] * to;
    }
  }

  int64_t from() const { return from_; }
  int64_t to() const { return to_; }

  void Next() {
    for (int i = plan_.rank - 1; i >= 0; --i) {
      const auto& [extent, from, to] = plan_.dims[i];
      from_ += from;
      to_ += to;
      if (++index_[i] < extent) return;
      index_[i] = 0;
      from_ -= extent * from;
      to_ -= extent * to;
    }
  }

 private:
  const CopyPlan& plan_;
  int64_t index_[Shape::kMaxRank];
  int64_t from_ = 0, to_ = 0;
};

// Where elements come from and go to.
struct Ends {
  const std::byte* from;
  std::byte* to;
  DType dtype;
  bool accumulate;

  int64_t size() const { return SizeOf(dtype); }
  int width() const { return std::countr_zero(static_cast<uint64_t>(size())); }  // its log2
};

void CopyLine(const Ends& ends, const Dimension& line, int64_t from, int64_t to, int64_t count) {
  const std::byte* x = ends.from + from * ends.size();
  std::byte* out = ends.to + to * ends.size();
  if (ends.accumulate) {
    Kernels().add[static_cast<int>(ends.dtype)](x, line.from, out, line.to, count);
  } else if (line.from == 1 && line.to == 1) {
    std::memcpy(out, x, count * ends.size());
  } else {
    Kernels().copy[ends.width()](x, line.from, out, line.to, count);
  }
}

// Line by line along the innermost dimension; `plan` has what is around it.
void CopyLines(const Ends& ends, const CopyPlan& plan, const Dimension& line) {
  if (plan.rank == 0) {
    return ParallelFor(line.extent, kChunk, [&](int64_t begin, int64_t end) {
      CopyLine(ends, line, begin * line.from, begin * line.to, end - begin);
    });
  }
  ParallelFor(plan.num_rows(), std::max<int64_t>(1, kChunk / line.extent),
              [&](int64_t begin, int64_t end) {
                Walk walk(plan, begin);
                for (int64_t row = begin; row < end; ++row, walk.Next()) {
                  CopyLine(ends, line, walk.from(), walk.to(), line.extent);
                }
              });
}

// Plane by plane: `rows` are contiguous in `to` and `columns` in `from`. Large planes are cut into
// bands of columns, so that several threads share one.
void CopyPlanes(const Ends& ends, const CopyPlan& plan, const Dimension& rows,
                const Dimension& columns) {
  constexpr int64_t kMinBand = 64;
  const auto kernel = Kernels().transpose[ends.width()];
  const int64_t band = std::clamp(kChunk / rows.extent / kMinBand * kMinBand,
                                  std::min(kMinBand, columns.extent), columns.extent);
  const int64_t bands = (columns.extent + band - 1) / band;
  const int64_t bands_per_chunk = std::max<int64_t>(1, kChunk / (rows.extent * band));
  ParallelFor(plan.num_rows() * bands, bands_per_chunk, [&](int64_t begin, int64_t end) {
    Walk walk(plan, begin / bands);
    int64_t column = begin % bands * band;
    for (int64_t i = begin; i < end; ++i) {
      kernel(ends.from + (walk.from() + column) * ends.size(), rows.from,
             ends.to + (walk.to() + column * columns.to) * ends.size(), columns.to, rows.extent,
             std::min(band, columns.extent - column));
      column += band;
      if (column >= columns.extent) {
        column = 0;
        walk.Next();
      }
    }
  });
}

void Copy(const Ends& ends, CopyPlan plan) {
  if (plan.rank == 0) return CopyLine(ends, {1, 1, 1}, 0, 0, 1);
  const Dimension line = plan.Take(plan.rank - 1);
  if (line.from != 1 && line.to == 1 && !ends.accumulate) {
    for (int i = 0; i < plan.rank; ++i) {
      if (plan.dims[i].from != 1) continue;
      const Dimension columns = plan.Take(i);
      return CopyPlanes(ends, plan, line, columns);
    }
  }
  CopyLines(ends, plan, line);
}

template <class T>
T FromDouble(double value) {
  if constexpr (std::is_class_v<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
void FillElements(T* to, int64_t count, T value, bool is_zero) {
  if (is_zero) {
    if (count > 0) std::memset(static_cast<void*>(to), 0, count * sizeof(T));
  } else {
    std::fill_n(to, count, value);
  }
}

// Dimension by dimension: what lies before and after the box, and then into each of its indices.
template <class T>
class OutsideFiller {
 public:
  OutsideFiller(const Shape& shape, const BoxBegin& begin, const Shape& extents, double value)
      : shape_(shape),
        strides_(shape),
        begin_(begin),
        extents_(extents),
        value_(FromDouble<T>(value)),
        is_zero_(value == 0) {
    last_ = shape.rank();
    while (last_ > 0 && IsAll(last_ - 1)) --last_;
  }

  // Dimensions that the box covers: the fillings of their indices are alike.
  bool IsAll(int dim) const { return extents_.dim(dim) == shape_.dim(dim); }

  void Fill(T* to, int dim) const {
    if (dim >= last_) return;
    const int64_t stride = strides_.of[dim];
    const int64_t begin = begin_[dim], end = begin + extents_.dim(dim);
    FillElements(to, begin * stride, value_, is_zero_);
    FillElements(to + end * stride, (shape_.dim(dim) - end) * stride, value_, is_zero_);
    for (int64_t i = begin; i < end && dim + 1 < last_; ++i) Fill(to + i * stride, dim + 1);
  }

 private:
  const Shape& shape_;
  const Strides strides_;
  const BoxBegin& begin_;
  const Shape& extents_;
  const T value_;
  const bool is_zero_;
  int last_;  // dimensions from here on are all in the box
};

}  // namespace

void Permute(const Tensor& x, std::span<const int> dims, const Tensor& out, bool accumulate) {
  if (x.num_elements() == 0) return;
  if (accumulate) {
    // Planes are transposed bit by bit; the sum is a pass of its own.
    const Tensor permuted = Tensor::Empty(out.shape(), out.options());
    Permute(x, dims, permuted);
    return CopyBox(permuted, {}, out, {}, out.shape(), accumulate);
  }
  const Strides from(x.shape()), to(out.shape());
  CopyPlan plan;
  for (int i = 0; i < out.shape().rank(); ++i) {
    plan.Append({out.dim(i), from.of[dims[i]], to.of[i]});
  }
  Copy({x.raw_data(), out.raw_data(), x.dtype(), accumulate}, plan);
}

void Expand(const Tensor& x, const Tensor& out) {
  if (out.num_elements() == 0) return;
  const Strides from(x.shape()), to(out.shape());
  const int lacking = out.shape().rank() - x.shape().rank();
  CopyPlan plan;
  for (int i = 0; i < out.shape().rank(); ++i) {
    const bool is_repeated = i < lacking || x.dim(i - lacking) == 1;
    plan.Append({out.dim(i), is_repeated ? 0 : from.of[i - lacking], to.of[i]});
  }
  Copy({x.raw_data(), out.raw_data(), x.dtype(), /*accumulate=*/false}, plan);
}

void CopyBox(const Tensor& from, const BoxBegin& from_begin, const Tensor& to,
             const BoxBegin& to_begin, const Shape& extents, bool accumulate) {
  if (extents.num_elements() == 0) return;
  const Strides from_strides(from.shape()), to_strides(to.shape());
  CopyPlan plan;
  for (int i = 0; i < extents.rank(); ++i) {
    plan.Append({extents.dim(i), from_strides.of[i], to_strides.of[i]});
  }
  const int64_t size = SizeOf(from.dtype());
  Copy({from.raw_data() + OffsetOf(from_begin, from.shape()) * size,
        to.raw_data() + OffsetOf(to_begin, to.shape()) * size, from.dtype(), accumulate},
       plan);
}

void FillOutside(const Tensor& to, const BoxBegin& begin, const Shape& extents, double value) {
  if (to.num_elements() == 0) return;
  Dispatch(to.dtype(), [&]<class T>() {
    const OutsideFiller<T> filler(to.shape(), begin, extents, value);
    int dim = 0;
    int64_t rows = 1;
    while (dim < extents.rank() && filler.IsAll(dim)) rows *= extents.dim(dim++);
    const int64_t row_size = to.num_elements() / rows;
    ParallelFor(rows, std::max<int64_t>(1, kChunk / row_size), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        filler.Fill(to.data<T>() + row * row_size, dim);
      }
    });
  });
}

}  // namespace ops::cpu
