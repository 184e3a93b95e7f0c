// The loop of embedding.h for one dtype.
#pragma once

#include <cstdint>

namespace ops::cpu {

// The rows of a matrix that belong to one sum: `first`, next[first], and so on until a negative.
struct RowList {
  const int64_t* next;
  int64_t first;
};

struct EmbeddingKernels {
  // out[width] = the sum of the listed rows of `matrix`, in this order; added to where
  // `accumulate`.
  void (*sum_rows)(const void* matrix, int64_t width, const RowList& rows, void* out,
                   bool accumulate);
};

inline constexpr int kNumFloatingDTypes = 4;

namespace baseline {
extern const EmbeddingKernels kEmbeddingKernels[kNumFloatingDTypes];  // by DType
}
namespace avx2 {
extern const EmbeddingKernels kEmbeddingKernels[kNumFloatingDTypes];
}
namespace avx512 {
extern const EmbeddingKernels kEmbeddingKernels[kNumFloatingDTypes];
}

}  // namespace ops::cpu
