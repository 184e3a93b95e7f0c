#include "ops/cpu/embedding_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

template <class T>
void SumRows(const void* matrix, int64_t width, const RowList& rows, void* out, bool accumulate) {
  using C = Compute<T>;
  constexpr int64_t kBlock = 256;
  C sums[kBlock];
  for (int64_t begin = 0; begin < width; begin += kBlock) {
    const int64_t n = width - begin < kBlock ? width - begin : kBlock;
    const T* from = static_cast<const T*>(matrix) + begin;
    T* to = static_cast<T*>(out) + begin;
    ForEach(n, [&, row = from + rows.first * width](int64_t i) { sums[i] = Load(row[i]); });
    for (int64_t k = rows.next[rows.first]; k >= 0; k = rows.next[k]) {
      ForEach(n, [&, row = from + k * width](int64_t i) { sums[i] += Load(row[i]); });
    }
    if (accumulate) {
      ForEach(n, [&](int64_t i) { to[i] = Round<T>(Load(to[i]) + sums[i]); });
    } else {
      ForEach(n, [&](int64_t i) { to[i] = Round<T>(sums[i]); });
    }
  }
}

}  // namespace

constinit const EmbeddingKernels kEmbeddingKernels[kNumFloatingDTypes] = {
    {SumRows<float>}, {SumRows<double>}, {SumRows<BFloat16>}, {SumRows<Float16>}};

}  // namespace ops::cpu::OPS_CPU_ISA
