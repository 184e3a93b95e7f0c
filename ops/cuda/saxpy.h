// y = a * x + y on a GPU: the smallest kernel that proves the path from a .cu file to a binary.

#ifndef OPS_CUDA_SAXPY_H_
#define OPS_CUDA_SAXPY_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ops::cuda {

// Adds `a` times the `num_elements` floats at `x` to those at `y`. Both are device memory and do
// not overlap; the result is ready when `stream` gets there. Throws std::runtime_error with CUDA's
// own words if the kernel cannot be launched.
void Saxpy(int64_t num_elements, float a, const float* x, float* y, cudaStream_t stream);

}  // namespace ops::cuda

#endif  // OPS_CUDA_SAXPY_H_
