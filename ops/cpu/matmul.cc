#include "ops/cpu/matmul.h"

#include <algorithm>

#include "ops/cpu/half_kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/multiply.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Multiplications of a chunk of matrices that one thread takes, and those of one matrix from which
// on it is split itself.
constexpr int64_t kChunk = int64_t{1} << 20;
constexpr int64_t kLargeProduct = int64_t{1} << 23;

// The matrices of a tensor [..., rows, columns].
struct Matrices {
  explicit Matrices(const Tensor& tensor)
      : rows(tensor.dim(-2)), columns(tensor.dim(-1)), count(1) {
    for (int i = 0; i + 2 < tensor.shape().rank(); ++i) count *= tensor.dim(i);
  }

  int64_t rows, columns, count;
};

// Which matrices of a and b are multiplied for which of `out`.
class Batch {
 public:
  struct Offsets {
    int64_t a, b, out;  // in matrices
  };

  Batch(const Shape& a, const Shape& b, const Shape& out) {
    Offsets step = {1, 1, 1};
    for (int i = 3; i <= Shape::kMaxRank; ++i) {  // from the innermost leading dimension
      const auto extent = [i](const Shape& shape) { return i <= shape.rank() ? shape.dim(-i) : 1; };
      const int64_t ea = extent(a), eb = extent(b), eout = extent(out);
      const int64_t full = ea != 1 ? ea : eb != 1 ? eb : eout;
      Dimension& dimension = (eout == 1 ? term_dims_ : output_dims_)[Shape::kMaxRank - i];
      dimension = {full, {ea == 1 ? 0 : step.a, eb == 1 ? 0 : step.b, eout == 1 ? 0 : step.out}};
      (eout == 1 ? terms : outputs) *= full;
      step = {step.a * ea, step.b * eb, step.out * eout};
    }
  }

  // Of a term of an output.
  Offsets Of(int64_t output, int64_t term) const {
    Offsets offsets = {0, 0, 0};
    AddOffsets(output_dims_, output, offsets);
    AddOffsets(term_dims_, term, offsets);
    return offsets;
  }

  int64_t outputs = 1;
  int64_t terms = 1;  // products that add up to one output

 private:
  struct Dimension {
    int64_t extent = 1;
    Offsets step = {0, 0, 0};
  };
  static constexpr int kMaxLeading = Shape::kMaxRank - 2;
  using Dimensions = Dimension[kMaxLeading];  // outermost first

  static void AddOffsets(const Dimensions& dims, int64_t index, Offsets& offsets) {
    for (int i = kMaxLeading - 1; i >= 0; --i) {
      const int64_t at = index % dims[i].extent;
      index /= dims[i].extent;
      offsets.a += at * dims[i].step.a;
      offsets.b += at * dims[i].step.b;
      offsets.out += at * dims[i].step.out;
    }
  }

  Dimensions output_dims_, term_dims_;
};

template <class T>
MatrixProduct<T> FirstProduct(const Tensor& a, const Tensor& b, const Tensor& out,
                              const MatMulOptions& options) {
  const Matrices in_a(a), in_b(b), in_out(out);
  return {
      .m = in_out.rows,
      .n = in_out.columns,
      .k = options.transpose_a ? in_a.rows : in_a.columns,
      .transpose_a = options.transpose_a,
      .transpose_b = options.transpose_b,
      .a = a.data<T>(),
      .a_stride = in_a.columns,
      .b = b.data<T>(),
      .b_stride = in_b.columns,
      .c = out.data<T>(),
      .c_stride = in_out.columns,
      .accumulate = options.accumulate,
  };
}

// Where a batch of products is one larger product, makes it that: matrices that follow each other
// are one matrix of more rows.
template <class T>
bool Fold(const Tensor& a, const Tensor& b, const Tensor& out, MatrixProduct<T>& product) {
  const int64_t as = Matrices(a).count, bs = Matrices(b).count, outs = Matrices(out).count;
  if (as == 1 && bs == 1 && outs == 1) return true;
  if (bs == 1 && as == outs && !product.transpose_a) {
    product.m *= outs;
    return true;
  }
  if (outs == 1 && as == bs && product.transpose_a && !product.transpose_b) {
    product.k *= as;
    return true;
  }
  return false;
}

template <class T>
void MultiplyBatch(const Batch& batch, const MatrixProduct<T>& first, int64_t a_size,
                   int64_t b_size) {
  const auto multiply = [&](int64_t output) {
    for (int64_t term = 0; term < batch.terms; ++term) {
      const Batch::Offsets offsets = batch.Of(output, term);
      MatrixProduct<T> product = first;
      product.a += offsets.a * a_size;
      product.b += offsets.b * b_size;
      product.c += offsets.out * first.m * first.n;
      product.accumulate |= term > 0;
      Multiply(product);
    }
  };
  const int64_t work = std::max<int64_t>(1, first.m * first.n * first.k * batch.terms);
  if (first.m * first.n * first.k >= kLargeProduct) {
    for (int64_t output = 0; output < batch.outputs; ++output) multiply(output);
  } else {
    ParallelFor(batch.outputs, std::max<int64_t>(1, kChunk / work),
                [&](int64_t begin, int64_t end) {
                  for (int64_t output = begin; output < end; ++output) multiply(output);
                });
  }
}

template <class T>
void MatMulIn(const Tensor& a, const Tensor& b, const Tensor& out, const MatMulOptions& options) {
  MatrixProduct<T> product = FirstProduct<T>(a, b, out, options);
  if (Fold(a, b, out, product)) return Multiply(product);
  const Batch batch(a.shape(), b.shape(), out.shape());
  if (batch.terms == 0 && !options.accumulate) out.FillZero();
  MultiplyBatch(batch, product, a.dim(-2) * a.dim(-1), b.dim(-2) * b.dim(-1));
}

bool IsHalf(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

const HalfKernels& KernelsOfHalf(DType dtype) {
  const HalfKernelTable& table =
      ForIsa(baseline::kHalfKernels, avx2::kHalfKernels, avx512::kHalfKernels);
  return dtype == DType::kBFloat16 ? table.bfloat16 : table.float16;
}

constexpr int64_t kHalfChunk = 32768;

Tensor ToFloat32(const Tensor& half) {
  const auto load = KernelsOfHalf(half.dtype()).load;
  const Tensor result = Tensor::Empty(half.shape());
  const std::byte* const from = half.raw_data();
  float* const to = result.data<float>();
  ParallelFor(half.num_elements(), kHalfChunk,
              [=](int64_t begin, int64_t end) { load(from + begin * 2, to + begin, end - begin); });
  return result;
}

void RoundInto(const Tensor& result, const Tensor& half) {
  const auto round = KernelsOfHalf(half.dtype()).round;
  const float* const from = result.data<float>();
  std::byte* const to = half.raw_data();
  ParallelFor(half.num_elements(), kHalfChunk, [=](int64_t begin, int64_t end) {
    round(from + begin, to + begin * 2, end - begin);
  });
}

}  // namespace

void MatMul(const Tensor& a, const Tensor& b, const Tensor& out, const MatMulOptions& options) {
  if (out.num_elements() == 0) return;
  if (IsHalf(out.dtype())) {
    const Tensor result = options.accumulate ? ToFloat32(out) : Tensor::Empty(out.shape());
    MatMulIn<float>(ToFloat32(a), ToFloat32(b), result, options);
    return RoundInto(result, out);
  }
  DispatchFloat("MatMul", out.dtype(), [&]<class T>() { MatMulIn<T>(a, b, out, options); });
}

void MatMulPlusBias(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  if (out.num_elements() == 0) return;
  if (IsHalf(out.dtype())) {
    const Tensor result = Tensor::Empty(out.shape());
    MatMulPlusBias(ToFloat32(x), ToFloat32(weight), bias.defined() ? ToFloat32(bias) : bias,
                   result);
    return RoundInto(result, out);
  }
  DispatchFloat("Linear", out.dtype(), [&]<class T>() {
    Multiply(FirstProduct<T>(x, weight, out, {.transpose_b = true}),
             bias.defined() ? bias.data<T>() : nullptr);
  });
}

}  // namespace ops::cpu
