#include "ops/cpu/multiply.h"

#include <algorithm>
#include <type_traits>

#include "ops/cpu/blas.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/matmul_table.h"
#include "ops/cpu/small_product_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

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

// Bias in every row of the result, for the product to be added to: a piece at a time, so that the
// rows are still in the cache when the library adds.
template <class T>
MatrixProduct<T> OntoBias(MatrixProduct<T> product, const T* bias) {
  if (bias == nullptr) return product;
  for (int64_t i = 0; i < product.m; ++i) {
    std::copy_n(bias, product.n, product.c + i * product.c_stride);
  }
  product.accumulate = true;
  return product;
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
void MultiplyLarge(const MatrixProduct<T>& product, const T* bias) {
  const ProductShape shape = {product.m, product.n, product.k, product.transpose_a,
                              product.transpose_b};
  auto* multiply = static_cast<void (*)(const MatrixProduct<T>&)>(MultiplyWithOpenBlas);
  auto library = BlasLibrary::kOpenBlas;
  if constexpr (std::is_same_v<T, float>) {
    library = FastestLibrary(CurrentIsa(), shape);
    if (library == BlasLibrary::kOneDnn) multiply = MultiplyWithOneDnn;
  }
  const ProductSplit split = SplitProduct(library, shape);
  ParallelFor(split.rows ? shape.m : shape.n, split.extent, [&](int64_t begin, int64_t end) {
    if (split.rows) {
      multiply(OntoBias(Rows(product, begin, end), bias));
    } else {
      multiply(OntoBias(Columns(product, begin, end), bias == nullptr ? bias : bias + begin));
    }
  });
}

template <class T>
void MultiplyAny(const MatrixProduct<T>& product, const T* bias) {
  if (IsSmall(product)) {
    MultiplySmall(OntoBias(product, bias));
  } else {
    MultiplyLarge(product, bias);
  }
}

}  // namespace

void Multiply(const MatrixProduct<float>& product, const float* bias) {
  MultiplyAny(product, bias);
}

void Multiply(const MatrixProduct<double>& product, const double* bias) {
  MultiplyAny(product, bias);
}

}  // namespace ops::cpu
