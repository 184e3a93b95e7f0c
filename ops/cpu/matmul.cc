#include "ops/cpu/matmul.h"

namespace ops::cpu {

void MatMul(const Tensor& a, const Tensor& b, const Tensor& out, const MatMulOptions& options) {
  const int64_t m = out.dim(0), n = out.dim(1);
  const int64_t k = options.transpose_a ? a.dim(0) : a.dim(1);
  DispatchFloat("MatMul", out.dtype(), [&]<class T>() {
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* po = out.data<T>();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += (options.transpose_a ? pa[p * m + i] : pa[i * k + p]) *
                 (options.transpose_b ? pb[j * k + p] : pb[p * n + j]);
        }
        po[i * n + j] = options.accumulate ? po[i * n + j] + sum : sum;
      }
    }
  });
}

}  // namespace ops::cpu
