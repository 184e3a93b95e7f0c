#include "ops/cpu/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "ops/cpu/broadcast.h"
#include "ops/cpu/elementwise_kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/rearrange.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Work for some microseconds: less isn't worth a hand-over to another thread.
constexpr int64_t kChunk = 32768;

const ElementwiseKernels& Kernels(DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kElementwiseKernels, avx2::kElementwiseKernels, avx512::kElementwiseKernels);
  return kernels[static_cast<int>(dtype)];
}

const ElementwiseKernels& FloatingKernels(const char* operation, DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(
        fmt::format("{}: expected a floating point dtype, got {}", operation, Name(dtype)));
  }
  return Kernels(dtype);
}

// Throws when integers are divided by a zero.
void CheckDivisor(const Tensor& divisor) {
  Dispatch(divisor.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const auto elements = divisor.elements<T>();
      const auto zero = std::ranges::find(elements, T(0));
      if (zero == elements.end()) return;
      throw std::invalid_argument(fmt::format("division by zero: element {} of the divisor {} is 0",
                                              zero - elements.begin(), divisor.Describe()));
    }
  });
}

// Operands that are as long as the output, or one element.
void BinaryFlat(ElementwiseKernels::Binary kernel, Operands operands, const Tensor& a,
                const Tensor& b, const Tensor& out) {
  const int64_t size = SizeOf(a.dtype()), out_size = SizeOf(out.dtype());
  const int64_t a_step = operands == Operands::kScalarVector ? 0 : size;
  const int64_t b_step = operands == Operands::kVectorScalar ? 0 : size;
  ParallelFor(out.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    kernel(a.raw_data() + begin * a_step, b.raw_data() + begin * b_step,
           out.raw_data() + begin * out_size, end - begin);
  });
}

void BinaryBroadcast(const ElementwiseKernels::Binary (&kernels)[3], const Tensor& a,
                     const Tensor& b, const Tensor& out) {
  const BroadcastPlan plan = PlanBroadcast(a.shape(), b.shape(), out.shape());
  const auto& inner = plan.inner();
  const Operands operands = inner.a_stride == 0   ? Operands::kScalarVector
                            : inner.b_stride == 0 ? Operands::kVectorScalar
                                                  : Operands::kVectorVector;
  const auto kernel = kernels[static_cast<int>(operands)];
  const int64_t size = SizeOf(a.dtype()), out_size = SizeOf(out.dtype());
  const int64_t rows = out.num_elements() / inner.extent;
  const int64_t rows_per_chunk = std::max<int64_t>(1, kChunk / inner.extent);
  ParallelFor(rows, rows_per_chunk, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offsets = plan.OfRow(row);
      kernel(a.raw_data() + offsets.a * size, b.raw_data() + offsets.b * size,
             out.raw_data() + row * inner.extent * out_size, inner.extent);
    }
  });
}

// Picks the kernel, by Operands, for the shapes.
void Apply(const ElementwiseKernels::Binary (&kernels)[3], const Tensor& a, const Tensor& b,
           const Tensor& out) {
  const int64_t n = out.num_elements();
  if (n == 0) return;
  const bool a_is_full = a.num_elements() == n, b_is_full = b.num_elements() == n;
  if (a_is_full && b_is_full) {
    BinaryFlat(kernels[0], Operands::kVectorVector, a, b, out);
  } else if (a_is_full && b.num_elements() == 1) {
    BinaryFlat(kernels[1], Operands::kVectorScalar, a, b, out);
  } else if (b_is_full && a.num_elements() == 1) {
    BinaryFlat(kernels[2], Operands::kScalarVector, a, b, out);
  } else {
    BinaryBroadcast(kernels, a, b, out);
  }
}

Tensor Expanded(const Tensor& x, const Shape& shape) {
  if (x.num_elements() == shape.num_elements()) return x;
  const Tensor expanded = Tensor::Empty(shape, x.options());
  Expand(x, expanded);
  return expanded;
}

}  // namespace

void Binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  if (op == BinaryOp::kDivide && !IsFloating(out.dtype()) && out.num_elements() > 0) {
    CheckDivisor(b);
  }
  Apply(Kernels(out.dtype()).binary[static_cast<int>(op)], a, b, out);
}

void Compare(Comparison comparison, const Tensor& a, const Tensor& b, const Tensor& out) {
  Apply(Kernels(a.dtype()).compare[static_cast<int>(comparison)], a, b, out);
}

// One of a and b may stay one element; of two the second is expanded.
void Where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t n = out.num_elements(), size = SizeOf(out.dtype());
  if (n == 0) return;
  const bool is_a_scalar = a.num_elements() == 1 && n > 1;
  const bool is_b_scalar = b.num_elements() == 1 && n > 1 && !is_a_scalar;
  const Tensor chosen = is_a_scalar ? a : Expanded(a, out.shape());
  const Tensor other = is_b_scalar ? b : Expanded(b, out.shape());
  const Tensor full_condition = Expanded(condition, out.shape());
  const Operands operands = is_a_scalar   ? Operands::kScalarVector
                            : is_b_scalar ? Operands::kVectorScalar
                                          : Operands::kVectorVector;
  const auto kernel = Kernels(out.dtype()).select[static_cast<int>(operands)];
  const int64_t a_step = is_a_scalar ? 0 : size, b_step = is_b_scalar ? 0 : size;
  ParallelFor(n, kChunk, [&](int64_t begin, int64_t end) {
    kernel(full_condition.data<uint8_t>() + begin, chosen.raw_data() + begin * a_step,
           other.raw_data() + begin * b_step, out.raw_data() + begin * size, end - begin);
  });
}

void Cast(const Tensor& x, const Tensor& out) {
  if (!IsFloating(x.dtype()) || !IsFloating(out.dtype())) return out.CopyFrom(x);
  const auto kernel = Kernels(x.dtype()).cast[static_cast<int>(out.dtype())];
  const int64_t size = SizeOf(x.dtype()), out_size = SizeOf(out.dtype());
  ParallelFor(x.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    kernel(x.raw_data() + begin * size, out.raw_data() + begin * out_size, end - begin);
  });
}

void Scale(double factor, const Tensor& x, const Tensor& out, bool accumulate) {
  const ElementwiseKernels& kernels = FloatingKernels("Scale", out.dtype());
  const auto kernel = accumulate ? kernels.add_scaled : kernels.scale;
  const int64_t size = SizeOf(out.dtype());
  ParallelFor(out.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    kernel(x.raw_data() + begin * size, factor, out.raw_data() + begin * size, end - begin);
  });
}

void AddScalar(double value, const Tensor& x, const Tensor& out) {
  const auto kernel = FloatingKernels("AddScalar", out.dtype()).add_scalar;
  const int64_t size = SizeOf(out.dtype());
  ParallelFor(out.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    kernel(x.raw_data() + begin * size, value, out.raw_data() + begin * size, end - begin);
  });
}

void Clamp(double low, double high, const Tensor& x, const Tensor& out) {
  const auto kernel = FloatingKernels("Clamp", out.dtype()).clamp;
  const int64_t size = SizeOf(out.dtype());
  ParallelFor(out.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    kernel(x.raw_data() + begin * size, low, high, out.raw_data() + begin * size, end - begin);
  });
}

}  // namespace ops::cpu
