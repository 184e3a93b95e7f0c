#include "ops/cpu/matmul.h"

#include <algorithm>
#include <type_traits>

#include "ops/cpu/blas.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/matmul_table.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/small_product_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

template <class T>
MatrixProduct<T> ProductOf(const Tensor& a, const Tensor& b, const Tensor& out,
                           const MatMulOptions& options) {
  return {
      .m = out.dim(0),
      .n = out.dim(1),
      .k = options.transpose_a ? a.dim(0) : a.dim(1),
      .transpose_a = options.transpose_a,
      .transpose_b = options.transpose_b,
      .a = a.data<T>(),
      .a_stride = a.dim(1),
      .b = b.data<T>(),
      .b_stride = b.dim(1),
      .c = out.data<T>(),
      .c_stride = out.dim(1),
      .accumulate = options.accumulate,
  };
}

template <class T>
void MultiplySmall(const MatrixProduct<T>& product) {
  const SmallProductKernels& kernels = ForIsa(
      baseline::kSmallProductKernels, avx2::kSmallProductKernels, avx512::kSmallProductKernels);
  if constexpr (std::is_same_v<T, float>) {
    kernels.float32(product);
  } else {
    kernels.float64(product);
  }
}

template <class T>
MatrixProduct<T> Rows(MatrixProduct<T> product, int64_t begin, int64_t end) {
  product.m = end - begin;
  product.a += begin * (product.transpose_a ? 1 : product.a_stride);
  product.c += begin * product.c_stride;
  return product;
}

template <class T>
MatrixProduct<T> Columns(MatrixProduct<T> product, int64_t begin, int64_t end) {
  product.n = end - begin;
  product.b += begin * (product.transpose_b ? product.b_stride : 1);
  product.c += begin;
  return product;
}

template <class T>
void MultiplyLarge(const MatrixProduct<T>& product) {
  const ProductShape shape = {product.m, product.n, product.k, product.transpose_a,
                              product.transpose_b};
  auto* multiply = static_cast<void (*)(const MatrixProduct<T>&)>(MultiplyWithOpenBlas);
  if constexpr (std::is_same_v<T, float>) {
    if (FastestLibrary(CurrentIsa(), shape) == BlasLibrary::kOneDnn) multiply = MultiplyWithOneDnn;
  }
  const ProductSplit split = SplitProduct(shape);
  ParallelFor(split.rows ? shape.m : shape.n, split.extent, [&](int64_t begin, int64_t end) {
    multiply(split.rows ? Rows(product, begin, end) : Columns(product, begin, end));
  });
}

}  // namespace

void MatMul(const Tensor& a, const Tensor& b, const Tensor& out, const MatMulOptions& options) {
  if (out.num_elements() == 0) return;
  DispatchFloat("MatMul", out.dtype(), [&]<class T>() {
    const MatrixProduct<T> product = ProductOf<T>(a, b, out, options);
    if (IsSmall(product)) {
      MultiplySmall(product);
    } else {
      MultiplyLarge(product);
    }
  });
}

}  // namespace ops::cpu
